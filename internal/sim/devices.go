package sim

import (
	"math"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/frames"
)

// devices are the rig's sensors: when each samples next, its noise, and where the tracker's origin is.
type devices struct {
	cfg        HandheldConfig
	rng        *rand.Rand
	originFrom frames.Pose // questOriginFromCell
	clocks     [4]pulse    // wrist, centre, encoder, tracker
}

// pulse is a device's own sampling grid: sample k is due at StartTime + k/rate, whenever the episode began.
type pulse struct {
	hz float64
	k  int64
}

func (p pulse) due() frames.DeviceTime { return StartTime + frames.DeviceTime(float64(p.k)*1e9/p.hz) }

func newDevices(cfg HandheldConfig, cond Condition, now frames.DeviceTime) *devices {
	d := &devices{cfg: cfg, rng: rand.New(rand.NewPCG(cond.Seed, 0xde71))}
	between := func(half float64) float64 { return half * (2*d.rng.Float64() - 1) }
	d.originFrom = frames.Pose{
		Pos: vec(between(0.5), between(0.5), 0.9+between(0.2)),
		Rot: frames.QuatFromAxisAngle(vec(0, 0, 1), between(math.Pi)),
	}.Inv()
	for i, hz := range [4]float64{cfg.WristHz, cfg.CenterHz, cfg.EncoderHz, cfg.TrackerHz} {
		d.clocks[i].hz = hz
		if hz > 0 {
			d.clocks[i].k = int64(math.Ceil(float64(now-StartTime) * hz / 1e9))
		}
	}
	return d
}

// sample takes every reading that is due at the cell's present tick. Stamps are the tick's time.
func (d *devices) sample(c *Cell, out *outbox) {
	for i := range d.clocks {
		p := &d.clocks[i]
		if p.hz <= 0 || p.due() > c.now {
			continue
		}
		p.k++
		switch i {
		case 0:
			for _, f := range c.Capture(Shot{Camera: LeftWrist, JPEG: true}, Shot{Camera: RightWrist, JPEG: true}) {
				out.put(Sample{Time: c.now}, f)
			}
		case 1:
			out.put(Sample{Time: c.now}, c.Capture(Shot{Camera: Center, RGB: true})[0])
		case 2:
			for _, s := range Sides {
				out.put(Sample{Time: c.now, Encoder: &EncoderReading{s, encoderRaw(s, c.GripperAngle(s))}}, nil)
			}
		case 3:
			out.put(Sample{Time: c.now, Tracker: d.track(c)}, nil)
		}
	}
}

// encoderCounts is the AS5601's resolution: 12 bits a turn.
const encoderCounts = 4096

// encoderRaw is the AS5601's reading at a finger angle: whole counts, falling as the finger opens.
func encoderRaw(s Side, fingerRad float64) float64 {
	const count = 2 * math.Pi / encoderCounts
	n := math.Round((EncoderClosedRaw[s] - fingerRad) / count)
	n = math.Mod(n, encoderCounts)
	if n < 0 {
		n += encoderCounts
	}
	return n * count
}

func (d *devices) track(c *Cell) *TrackerReading {
	r := &TrackerReading{Tracked: [2]bool{true, true}}
	noise := func(p frames.Pose) frames.Pose {
		g := func(sd float64) r3Vec {
			return scale(sd, vec(d.rng.NormFloat64(), d.rng.NormFloat64(), d.rng.NormFloat64()))
		}
		p.Pos = add(p.Pos, g(max(0, d.cfg.TrackerNoiseM)))
		p.Rot = p.Rot.Mul(frames.ExpSO3(g(max(0, d.cfg.TrackerNoiseRad)))).Canonical()
		return d.originFrom.Mul(p)
	}
	// The head looks at the table from behind it.
	r.HMD = noise(frames.Pose{Pos: vec(-0.45, 0, 0.55), Rot: frames.QuatFromRPY(0, 0.8, 0)})
	for _, s := range Sides {
		r.Hands[s] = noise(c.HandPose(s))
	}
	return r
}
