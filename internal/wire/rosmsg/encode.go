package rosmsg

import "github.com/pinch-robotics/pinch/internal/wire/cdr"

// MarshalCDR appends the message to dst.
func (m *TFMessage) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	w.Count(len(m.Transforms))
	for i := range m.Transforms {
		t := &m.Transforms[i]
		putHeader(w, t.Header)
		w.String(t.ChildFrameID)
		putVector3(w, t.Transform.Translation)
		putQuaternion(w, t.Transform.Rotation)
	}
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *CompressedImage) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	putHeader(w, m.Header)
	w.String(m.Format)
	w.Octets(m.Data)
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *CompressedVideo) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	putTime(w, m.Timestamp)
	w.String(m.FrameID)
	w.Octets(m.Data)
	w.String(m.Format)
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *CameraInfo) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	putHeader(w, m.Header)
	w.Uint32(m.Height)
	w.Uint32(m.Width)
	w.String(m.DistortionModel)
	w.Float64s(m.D)
	w.FixedFloat64s(m.K[:])
	w.FixedFloat64s(m.R[:])
	w.FixedFloat64s(m.P[:])
	w.Uint32(m.BinningX)
	w.Uint32(m.BinningY)
	w.Uint32(m.ROI.XOffset)
	w.Uint32(m.ROI.YOffset)
	w.Uint32(m.ROI.Height)
	w.Uint32(m.ROI.Width)
	w.Bool(m.ROI.DoRectify)
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *JointState) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	putHeader(w, m.Header)
	w.Strings(m.Name)
	w.Float64s(m.Position)
	w.Float64s(m.Velocity)
	w.Float64s(m.Effort)
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *Joy) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	putHeader(w, m.Header)
	w.Float32s(m.Axes)
	w.Int32s(m.Buttons)
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *Bool) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	w.Bool(m.Data)
	return w.Bytes()
}

// MarshalCDR appends the message to dst.
func (m *PoseStamped) MarshalCDR(dst []byte) []byte {
	w := cdr.NewWriter(dst)
	putHeader(w, m.Header)
	putVector3(w, m.Position)
	putQuaternion(w, m.Orientation)
	return w.Bytes()
}

func putTime(w *cdr.Writer, t Time) {
	w.Int32(t.Sec)
	w.Uint32(t.Nanosec)
}

func putHeader(w *cdr.Writer, h Header) {
	putTime(w, h.Stamp)
	w.String(h.FrameID)
}

func putVector3(w *cdr.Writer, v Vector3) {
	w.Float64(v.X)
	w.Float64(v.Y)
	w.Float64(v.Z)
}

func putQuaternion(w *cdr.Writer, q Quaternion) {
	w.Float64(q.X)
	w.Float64(q.Y)
	w.Float64(q.Z)
	w.Float64(q.W)
}
