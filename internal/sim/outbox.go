package sim

// outbox keeps samples in order while their images are still being rendered.
type outbox struct {
	yield   func(Sample, error) bool
	ahead   int // images that may be unfinished while the physics goes on
	queue   []queued
	images  int
	stopped bool
}

type queued struct {
	sample  Sample
	pending *Pending
}

func (o *outbox) put(s Sample, p *Pending) {
	o.queue = append(o.queue, queued{s, p})
	if p != nil {
		o.images++
	}
}

// flush yields samples until at most keep images are left in the queue; it says false when the loop was stopped or broke.
func (o *outbox) flush(keep int) bool {
	for len(o.queue) > 0 && !o.stopped {
		q := o.queue[0]
		if q.pending != nil {
			if o.images <= keep && keep > 0 {
				return true
			}
			f, err := q.pending.Wait()
			if err != nil {
				o.drop()
				o.yield(Sample{}, err)
				o.stopped = true
				return false
			}
			q.sample.Image = &f
			o.images--
		}
		o.queue = o.queue[1:]
		if !o.yield(q.sample, nil) {
			o.stopped = true
			o.drop()
		}
	}
	return !o.stopped
}

// drop waits for the images in work and forgets everything.
func (o *outbox) drop() {
	for _, q := range o.queue {
		if q.pending != nil {
			q.pending.Wait()
		}
	}
	o.queue, o.images = nil, 0
}
