package frames

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/spatial/r3"
)

// handTree is the handheld rig in small: origin to head and two hands over time, a fixed tip on each hand.
func handTree(t *testing.T) *Tree {
	t.Helper()
	tr := NewTree()
	r := rand.New(rand.NewPCG(7, 1))
	for i := range 10 {
		for j, child := range []string{"quest_hmd", "left_hand_root", "right_hand_root"} {
			at := Stamp(i)*10e6 + Stamp(j)*1e6
			if err := tr.AddDynamic("quest_origin", child, at, randPose(r)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, side := range []string{"left", "right"} {
		if err := tr.AddStatic(side+"_hand_root", side+"_tip", randPose(r)); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func TestLookupComposesThroughTheCommonAncestor(t *testing.T) {
	tr := handTree(t)
	at := Stamp(55e6)
	get := func(target, source string) Pose {
		p, err := tr.Lookup(target, source, at, Hold)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	originFromLeft, originFromRight := get("quest_origin", "left_hand_root"), get("quest_origin", "right_hand_root")
	nearPose(t, "hold takes sample 5", originFromLeft, tr.edges["left_hand_root"].poses[5])
	nearPose(t, "left from right", get("left_hand_root", "right_hand_root"), originFromLeft.Inv().Mul(originFromRight))
	tipFromTip := get("left_tip", "right_tip")
	want := get("left_hand_root", "left_tip").Inv().Mul(originFromLeft.Inv()).Mul(originFromRight).Mul(get("right_hand_root", "right_tip"))
	nearPose(t, "tip from tip", tipFromTip, want)
	nearPose(t, "the other way", get("right_tip", "left_tip"), tipFromTip.Inv())
	if get("left_tip", "left_tip") != Identity {
		t.Error("a frame in itself is not the identity")
	}
	// The ancestor of hand and tip is the hand: nothing above it is needed.
	if _, err := tr.Lookup("left_hand_root", "left_tip", -1e9, Hold); err != nil {
		t.Errorf("static part before the first sample: %v", err)
	}
}

func TestLookupMethods(t *testing.T) {
	tr := NewTree()
	a, b := Identity, Pose{r3.Vec{X: 1}, QuatFromAxisAngle(r3.Vec{Z: 1}, 1)}
	// Added out of order, and the sample at 0 twice: the later call counts.
	for _, s := range []struct {
		at Stamp
		p  Pose
	}{{100, b}, {0, b}, {0, a}} {
		if err := tr.AddDynamic("o", "h", s.at, s.p); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		at   Stamp
		m    Method
		want Pose
	}{
		{50, Hold, a}, {99, Hold, a}, {100, Hold, b}, {500, Hold, b},
		{50, Nearest, a}, {51, Nearest, b}, {-5, Nearest, a},
		{25, Interpolated, Pose{r3.Vec{X: 0.25}, QuatFromAxisAngle(r3.Vec{Z: 1}, 0.25)}}, {500, Interpolated, b},
	} {
		got, err := tr.Lookup("o", "h", tc.at, tc.m)
		if err != nil {
			t.Fatal(err)
		}
		nearPose(t, tc.m.String(), got, tc.want)
	}
	for _, m := range []Method{Hold, Interpolated} {
		if _, err := tr.Lookup("o", "h", -1, m); !errors.Is(err, ErrNoSample) {
			t.Errorf("%v before the first sample: %v", m, err)
		}
	}
}

func TestTreeErrors(t *testing.T) {
	tr := handTree(t)
	for _, tc := range []struct {
		name string
		err  error
		want error
		text string
	}{
		{"two parents", tr.AddStatic("quest_hmd", "left_tip", Identity), ErrTwoParents, "left_tip hangs on left_hand_root and on quest_hmd"},
		{"loop", tr.AddStatic("left_tip", "quest_origin", Identity), ErrLoop, "quest_origin, left_tip, left_hand_root, quest_origin"},
		{"own parent", tr.AddStatic("x", "x", Identity), ErrLoop, "x, x"},
		{"NaN", tr.AddDynamic("quest_origin", "quest_hmd", 77, Pose{r3.Vec{Z: math.NaN()}, IdentityQuat}), ErrNotFinite, "quest_origin to quest_hmd at 77 ns"},
		{"zero quaternion", tr.AddStatic("quest_origin", "cup", Pose{}), ErrNotRotation, "quest_origin to cup"},
		{"no name", tr.AddStatic("quest_origin", "", Identity), ErrUnknownFrame, "empty"},
	} {
		if !errors.Is(tc.err, tc.want) || !strings.Contains(tc.err.Error(), tc.text) {
			t.Errorf("%s: %v, want %v with %q", tc.name, tc.err, tc.want, tc.text)
		}
	}
	if tr.Has("x") || tr.Has("cup") {
		t.Error("a refused edge left its frame in the tree")
	}
	_, err := tr.Lookup("quest_origin", "left_hand_rot", 0, Hold)
	if !errors.Is(err, ErrUnknownFrame) || !strings.Contains(err.Error(), "nearest names: left_hand_root") {
		t.Errorf("misspelt frame: %v", err)
	}
	if err := tr.AddStatic("table", "cup", Identity); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Lookup("cup", "left_tip", 0, Hold); !errors.Is(err, ErrNotConnected) {
		t.Errorf("two trees: %v", err)
	}
}

// The tracker sends head, left and right as three messages. Asked just after the right hand's message, rebake's flag says
// that the left hand is stale although it moved since the row before.
func TestFreshnessPerEdgeAndChain(t *testing.T) {
	tr := handTree(t)
	left, err := tr.Chain("quest_origin", "left_tip")
	if err != nil {
		t.Fatal(err)
	}
	both, err := tr.Chain("left_hand_root", "right_hand_root")
	if err != nil {
		t.Fatal(err)
	}
	const before, at = Stamp(32e6), Stamp(42e6) // right's sample 3 comes at 32 ms, left's 4 at 41, right's 4 at 42
	if f := left.FreshSince(before, at); !f.Any() || !f.All() || f.Moving != 1 {
		t.Errorf("left hand moved: %+v", f)
	}
	if left.FreshInLastMessage(tr, at) {
		t.Error("the last message was the right hand's, but rebake's flag is true for the left")
	}
	if !both.FreshInLastMessage(tr, at) {
		t.Error("the last message was the right hand's, but rebake's flag is false for the pair")
	}
	if f := both.FreshSince(32e6, 41e6); !f.Any() || f.All() || f != (Freshness{Fresh: 1, Moving: 2}) {
		t.Errorf("only the left hand is new: %+v", f)
	}
	if f := left.FreshSince(45e6, 50e6); f.Any() {
		t.Errorf("nothing new for the left hand: %+v", f)
	}
	for _, tc := range []struct {
		child      string
		before, at Stamp
		want       State
	}{
		{"left_hand_root", 32e6, 42e6, Fresh}, {"left_hand_root", 45e6, 50e6, Held},
		{"left_hand_root", -2, -1, Missing}, {"left_tip", 0, 1e9, Held},
	} {
		if got, err := tr.EdgeState(tc.child, tc.before, tc.at); err != nil || got != tc.want {
			t.Errorf("%s from %d to %d: %v, %v; want %v", tc.child, tc.before, tc.at, got, err, tc.want)
		}
	}
	if s, ok := both.Start(); !ok || s != 2e6 {
		t.Errorf("pair starts at %d, %v; want 2 ms, when the right hand's first sample is there", s, ok)
	}
}

// The way between two frames goes up from the target to the common ancestor and down to the source, over the edges in between.
func TestChainListsItsEdges(t *testing.T) {
	c, err := handTree(t).Chain("left_tip", "right_hand_root")
	if err != nil {
		t.Fatal(err)
	}
	want := []Edge{{"left_hand_root", "left_tip"}, {"quest_origin", "left_hand_root"}, {"quest_origin", "right_hand_root"}}
	if got := c.Edges(); !slices.Equal(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
}

func TestTreeTellsWhatItHolds(t *testing.T) {
	tr := handTree(t)
	if !tr.Has("quest_origin") || !tr.Has("left_tip") || tr.Has("left_tips") {
		t.Error("frames of the tree are not those that edges name")
	}
	if p, ok := tr.Parent("left_tip"); p != "left_hand_root" || !ok {
		t.Errorf("parent of the tip is %q, %v", p, ok)
	}
	if p, ok := tr.Parent("quest_origin"); p != "" || ok {
		t.Errorf("the root has the parent %q", p)
	}
	want := []Stamp{1e6, 11e6, 21e6, 31e6, 41e6, 51e6, 61e6, 71e6, 81e6, 91e6}
	if got := tr.Samples("left_hand_root"); !slices.Equal(got, want) {
		t.Errorf("samples at %v, want %v", got, want)
	}
	if got := tr.Samples("left_tip"); len(got) != 0 {
		t.Errorf("a static edge has samples at %v", got)
	}
}

// The names that an error offers are the nearest by edits, nearest first, not the first by alphabet.
func TestUnknownFrameNamesTheNearest(t *testing.T) {
	_, err := handTree(t).Chain("quest_origin", "right_tpi")
	if !errors.Is(err, ErrUnknownFrame) || !strings.Contains(err.Error(), "nearest names: right_tip, left_tip") {
		t.Errorf("error %v", err)
	}
}
