package export

import (
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// frameNames gives the frames of features.
type frameNames struct {
	origin string
	layout feature.Layout
}

// framesOf finds the frame that poses are given in: YUBI's tracking space where the set has the tracker's own poses, the cell where
// it has the hands alone, else a frame without a meaning.
func framesOf(d *dataset.Dataset) frameNames {
	n := frameNames{origin: "origin", layout: feature.Stationary()}
	for _, f := range d.Features() {
		switch {
		case strings.HasPrefix(f.Name, "observation.pose.hmd.") || strings.Contains(f.Name, "_controller."):
			n.origin = feature.QuestOrigin
			return n
		case strings.HasSuffix(f.Name, "_hand_root.absolute"):
			n.origin = feature.Cell
		}
	}
	return n
}

// of returns parent and child of a pose feature.
func (n frameNames) of(f dataset.Feature) (parent, child string) {
	parent, child = n.origin, strings.TrimSuffix(strings.TrimPrefix(f.Name, "observation.pose."), ".absolute")
	known, err := n.layout.Find(f.Name)
	if err != nil || known.Kind != feature.Pose {
		return parent, child
	}
	if known.Parent != n.layout.Origin {
		parent = known.Parent // one hand seen from the other
	}
	return parent, known.Child
}

// camera is the frame of a camera's pictures: that of the hand's camera where the set has its pose.
func (n frameNames) camera(name string) string {
	side := name[strings.LastIndexByte(name, '.')+1:]
	if f, err := n.layout.Find("observation.pose." + side + "_hand_cam.absolute"); err == nil {
		return f.Child
	}
	return identifier(side)
}

var poseElements = []string{"x", "y", "z", "qx", "qy", "qz", "qw"}

// isPose tells whether a feature is a pose and not a motion.
func isPose(f dataset.Feature) bool {
	return f.DType.Numeric() && slices.Equal(f.Names, poseElements) && !strings.HasSuffix(f.Name, ".relative")
}

// read reads a numeric feature in the type in which its messages hold it.
func (x *exporter) read(f dataset.Feature, episode int) (v row, err error) {
	switch numberType(f.DType) {
	case tInt64, tUint64, tBool:
		v.ints, err = dataset.ReadColumn[int64](x.d, f.Name, episode)
	default:
		v.floats, err = dataset.ReadColumn[float64](x.d, f.Name, episode)
	}
	return v, err
}

// numbers writes a numeric feature: a pose as PoseInFrame, others as a message of their own or as a joint state.
func (x *exporter) numbers(e dataset.EpisodeMeta, f dataset.Feature) error {
	if isPose(f) {
		return x.poses(e, f)
	}
	if x.o.Viewer == Rerun {
		return x.jointStates(e, f)
	}
	v, err := x.read(f, e.Index)
	if err != nil {
		return err
	}
	full, fields := rowMessage(f)
	id, err := x.proto(topic(f.Name), full, fields)
	if err != nil {
		return err
	}
	typ, dim := numberType(f.DType), f.Dim()
	x.add(func(r int, ns int64) error { return x.put(id, ns, encodeRow(ns, typ, v, r, dim)) })
	return nil
}

func (x *exporter) poses(e dataset.EpisodeMeta, f dataset.Feature) error {
	v, err := dataset.ReadColumn[float64](x.d, f.Name, e.Index)
	if err != nil {
		return err
	}
	id, err := x.foxglove(topic(f.Name), "PoseInFrame")
	if err != nil {
		return err
	}
	parent, _ := x.frames.of(f)
	x.add(func(r int, ns int64) error { return x.put(id, ns, encodePose(ns, parent, v[7*r:7*r+7])) })
	return nil
}

// jointStates writes the elements as names and positions.
func (x *exporter) jointStates(e dataset.EpisodeMeta, f dataset.Feature) error {
	v, err := dataset.ReadColumn[float64](x.d, f.Name, e.Index)
	if err != nil {
		return err
	}
	id, err := x.channel(topic(f.Name), rosmsg.TypeJointState, "ros2msg", "cdr", func() ([]byte, error) { return []byte(rosmsg.Definition(rosmsg.TypeJointState)), nil })
	if err != nil {
		return err
	}
	dim := f.Dim()
	names := make([]string, dim)
	_, fields := rowMessage(f)
	for k := range names {
		if names[k] = fields[k+1].name; k < len(f.Names) {
			names[k] = f.Names[k]
		}
	}
	x.add(func(r int, ns int64) error {
		m := rosmsg.JointState{Header: rosmsg.Header{Stamp: rosmsg.Time{Sec: int32(ns / 1e9), Nanosec: uint32(ns % 1e9)}}, Name: names, Position: v[dim*r : dim*r+dim]}
		return x.put(id, ns, m.MarshalCDR(nil))
	})
	return nil
}

// transforms writes the poses once more as edges of a tree of frames; a frame seen from two parents is taken from the first.
func (x *exporter) transforms(e dataset.EpisodeMeta) error {
	type edge struct {
		parent, child string
		poses         []float64
	}
	var edges []edge
	for _, f := range x.d.Features() {
		if !isPose(f) || strings.HasPrefix(f.Name, "action") {
			continue
		}
		parent, child := x.frames.of(f)
		if slices.ContainsFunc(edges, func(o edge) bool { return o.child == child }) {
			continue
		}
		v, err := dataset.ReadColumn[float64](x.d, f.Name, e.Index)
		if err != nil {
			return err
		}
		edges = append(edges, edge{parent, child, v})
	}
	if len(edges) == 0 {
		return nil
	}
	id, err := x.foxglove("/tf", "FrameTransforms")
	if err != nil {
		return err
	}
	x.add(func(r int, ns int64) error {
		var b []byte
		for _, g := range edges {
			b = appendTransform(b, ns, g.parent, g.child, g.poses[7*r:7*r+7])
		}
		return x.put(id, ns, b)
	})
	return nil
}
