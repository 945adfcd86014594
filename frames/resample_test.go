package frames

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// Tick k is start + round(k 1e9 / fps), however far out; a summed step of 33,333,333 ns would be 100 us off after 10^6 / 3.3 rows.
func TestTicksDoNotDrift(t *testing.T) {
	const start = 1_700_000_000_000_000_123
	for _, fps := range []int{1, 7, 24, 30, 60, 120, 1000} {
		tl := Timeline{Start: start, FPS: fps, N: 1 << 30}
		for _, k := range []int{0, 1, 2, 3, 29, 30, 31, 1_000_000, 1<<30 - 1} {
			want := new(big.Int).Mul(big.NewInt(int64(k)*2), big.NewInt(1e9))
			want.Add(want, big.NewInt(int64(fps))).Div(want, big.NewInt(int64(2*fps)))
			if got := int64(tl.At(k) - start); got != want.Int64() {
				t.Fatalf("fps %d tick %d at +%d ns, want +%v", fps, k, got, want)
			}
		}
		if tl.At(fps*3600) != start+3600e9 {
			t.Fatalf("fps %d: one hour is not 3600 s", fps)
		}
	}
}

func TestNewTimelineEnds(t *testing.T) {
	for _, tc := range []struct {
		end  Stamp
		want int
	}{{0, 1}, {33_333_332, 1}, {33_333_333, 2}, {66_666_666, 2}, {66_666_667, 3}, {1e9, 31}, {1e9 - 1, 30}} {
		tl, err := NewTimeline(0, tc.end, 30)
		if err != nil || tl.N != tc.want {
			t.Errorf("to %d ns: %d ticks, %v; want %d", tc.end, tl.N, err, tc.want)
		}
	}
	if _, err := NewTimeline(5, 4, 30); err == nil {
		t.Error("an end before the start passes")
	}
	if _, err := NewTimeline(0, 1, 0); err == nil {
		t.Error("a rate of zero passes")
	}
}

func TestResampleByHand(t *testing.T) {
	// Ticks at 0, 100, 200, 300, 400 ms; the sample at 350 lies exactly between ticks 300 and 400.
	ms := func(v ...int) (out []Stamp) {
		for _, x := range v {
			out = append(out, Stamp(x)*1e6)
		}
		return out
	}
	tl := Timeline{Start: 0, FPS: 10, N: 5}
	samples := ms(50, 150, 250, 350)
	for _, tc := range []struct {
		method Method
		want   []Pick
	}{
		{Hold, []Pick{{-1, 0, Missing}, {0, 0, Fresh}, {1, 0, Fresh}, {2, 0, Fresh}, {3, 0, Fresh}}},
		// Ticks 100, 200, 300 tie: the earlier sample wins.
		{Nearest, []Pick{{0, 0, Fresh}, {0, 0, Held}, {1, 0, Fresh}, {2, 0, Fresh}, {3, 0, Fresh}}},
		{Interpolated, []Pick{{-1, 0, Missing}, {0, 0.5, Fresh}, {1, 0.5, Fresh}, {2, 0.5, Fresh}, {3, 0, Fresh}}},
	} {
		got, err := Resample(samples, tl, tc.method)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v, %v; want %v", tc.method, got, err, tc.want)
		}
	}
	got, err := Resample(ms(0, 100), tl, Hold)
	want := []Pick{{0, 0, Fresh}, {1, 0, Fresh}, {1, 0, Held}, {1, 0, Held}, {1, 0, Held}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("stopped topic: %v, %v; want %v", got, err, want)
	}
	if _, err := Resample(ms(2, 1), tl, Hold); err == nil {
		t.Error("samples out of order pass")
	}
}

// The slow twin scans all samples for every tick.
func TestResampleAgainstScan(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for range 200 {
		var samples []Stamp
		for range r.IntN(40) {
			samples = append(samples, Stamp(r.Int64N(2e9)))
		}
		slices.Sort(samples)
		tl, err := NewTimeline(Stamp(r.Int64N(1e9)), Stamp(1e9+r.Int64N(2e9)), 1+r.IntN(60))
		if err != nil {
			t.Fatal(err)
		}
		hold, err1 := Resample(samples, tl, Hold)
		near, err2 := Resample(samples, tl, Nearest)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for k, at := range tl.Stamps() {
			wantHold, wantNear := -1, -1
			for i, s := range samples {
				if s <= at {
					wantHold = i
				}
				if wantNear < 0 || dist(s, at) < dist(samples[wantNear], at) || s == samples[wantNear] {
					wantNear = i
				}
			}
			if hold[k].Index != wantHold {
				t.Fatalf("hold tick %d takes %d, want %d", k, hold[k].Index, wantHold)
			}
			if wantNear >= 0 && samples[near[k].Index] != samples[wantNear] {
				t.Fatalf("nearest tick %d takes %d, want %d", k, samples[near[k].Index], samples[wantNear])
			}
			if k > 0 && (hold[k].State == Held) != (wantHold >= 0 && hold[k-1].Index == wantHold) {
				t.Fatalf("tick %d is marked %v", k, hold[k].State)
			}
		}
	}
}

func dist(a, b Stamp) Stamp { return max(a-b, b-a) }

func TestMethodNames(t *testing.T) {
	for _, m := range []Method{Hold, Nearest, Interpolated} {
		if back, err := ParseMethod(m.String()); err != nil || back != m {
			t.Errorf("%v parses to %v, %v", m, back, err)
		}
	}
	if _, err := ParseMethod("zoh"); err == nil {
		t.Error("a wrong method parses")
	}
}

// 30 Hz has no whole period: the stamps are the thirds of a tenth of a second, rounded one by one.
func TestStampsAreTheTicks(t *testing.T) {
	tl := Timeline{Start: 1000, FPS: 30, N: 4}
	want := []Stamp{1000, 33_334_333, 66_667_667, 100_001_000}
	if got := tl.Stamps(); !slices.Equal(got, want) {
		t.Errorf("stamps %v, want %v", got, want)
	}
}
