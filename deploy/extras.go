package deploy

// moment is what hands and wrist cameras showed at t; not ok before the run began.
func (r *run) moment(t int64) (m hands, jpeg [2][]byte, ok bool) {
	for h := range jpeg {
		f, here := r.seen[h].before(t)
		if !here {
			return m, jpeg, false
		}
		jpeg[h] = f.JPEG
	}
	m, ok = r.hist.at(t)
	return m, jpeg, ok
}

// extras adds to a question what this policy wants beyond the arena's observation: earlier moments, as far back as the run goes; the hands' poses; and the
// rows that will be carried out before its answer can take over (real-time chunking).
func (r *run) extras(a *asked, t, now int64, origin float64) {
	c := &r.contract
	for f := 1; f < c.Frames; f++ {
		m, jpeg, ok := r.moment(t - int64(float64(f)*c.FrameInterval*1e9))
		if !ok {
			break
		}
		a.obs.Past = append(a.obs.Past, observation(m, "", 0))
		a.jpeg = append(a.jpeg, jpeg)
	}
	if c.HandPoses {
		hands := a.hands
		a.obs.Hands = &hands
	}
	if c.MaxPrefix > 0 && c.PoseReference == ReferenceBody && c.PoseTiming == TimingNext {
		takes := now + int64(r.inq.latency.expect()) + int64(ms(r.s.cell.Control.SwitchLeadMS))
		a.obs.Prefix = r.exec.prefix(origin, r.exec.policyTimeAhead(takes), c.MaxPrefix)
	}
}
