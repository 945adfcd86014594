//go:build mujoco && cgo

package sim

/*
#cgo LDFLAGS: -lmujoco -lOSMesa -lturbojpeg
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <mujoco/mujoco.h>

static void pinch_quiet(const char* msg) { (void)msg; }

// Loads XML text through MuJoCo's in-memory file system.
static mjModel* pinch_load(const char* xml, int size, char* err, int errsize) {
	mju_user_warning = pinch_quiet; // the default writes a log file into the working directory
	mjVFS* vfs = malloc(sizeof(mjVFS));
	mj_defaultVFS(vfs);
	mjModel* m = NULL;
	if (mj_makeEmptyFileVFS(vfs, "cell.xml", size) == 0) {
		memcpy(vfs->filedata[0], xml, size);
		m = mj_loadXML("cell.xml", vfs, err, errsize);
	}
	mj_deleteVFS(vfs);
	free(vfs);
	return m;
}

// Steps n ticks. Gravity and Coriolis forces of every degree of freedom from dof0 on are compensated, as an arm's own controller
// and a person's hand do. Returns the number of states that MuJoCo found not finite or too large.
static int pinch_step(const mjModel* m, mjData* d, int n, int dof0) {
	for (int i = 0; i < n; i++) {
		mj_step1(m, d);
		for (int j = dof0; j < m->nv; j++) d->qfrc_applied[j] = d->qfrc_bias[j];
		mj_step2(m, d);
	}
	// A step leaves the poses of bodies and cameras where it began; bring them up to the clock.
	mj_kinematics(m, d);
	mj_camlight(m, d);
	return d->warning[mjWARN_BADQPOS].number + d->warning[mjWARN_BADQVEL].number + d->warning[mjWARN_BADQACC].number;
}
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/pinch-robotics/pinch/frames"
)

// mujoco is the engine on MuJoCo 2.2.
type mujoco struct {
	m         *C.mjModel
	d         *C.mjData
	geomNames []string
	render    *renderPool
}

// firstCompensated is the first degree of freedom that is weightless: those of the block, which comes first, are not.
const firstCompensated = 6

func newEngine(cfg Config) (engine, error) {
	xml, err := MJCF(cfg)
	if err != nil {
		return nil, err
	}
	text := C.CString(xml)
	defer C.free(unsafe.Pointer(text))
	var msg [1000]C.char
	m := C.pinch_load(text, C.int(len(xml)), &msg[0], C.int(len(msg)))
	if m == nil {
		return nil, fmt.Errorf("compile the cell's model: %s", C.GoString(&msg[0]))
	}
	e := &mujoco{m: m, d: C.mj_makeData(m)}
	tex := int(C.mj_name2id(m, C.mjOBJ_TEXTURE, cstr("table")))
	adr := unsafe.Slice((*C.int)(m.tex_adr), m.ntex)[tex]
	fillTexture(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(m.tex_rgb), int(adr))), 3*textureSize*textureSize))
	for i := range int(m.ngeom) {
		e.geomNames = append(e.geomNames, C.GoString(C.mj_id2name(m, C.mjOBJ_GEOM, C.int(i))))
	}
	if e.render, err = newRenderPool(m, cfg); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *mujoco) close() {
	if e.render != nil {
		e.render.close()
	}
	C.mj_deleteData(e.d)
	C.mj_deleteModel(e.m)
}

// cstr makes a C string that lives for ever; names are few and fixed.
func cstr(s string) *C.char {
	names.Lock()
	defer names.Unlock()
	if p, ok := names.known[s]; ok {
		return p
	}
	p := C.CString(s)
	names.known[s] = p
	return p
}

func (e *mujoco) id(kind C.int, what, name string) int {
	id := int(C.mj_name2id(e.m, kind, cstr(name)))
	if id < 0 {
		panic(fmt.Sprintf("sim: the model has no %s %q", what, name))
	}
	return id
}

func (e *mujoco) body(name string) int     { return e.id(C.mjOBJ_BODY, "body", name) }
func (e *mujoco) joint(name string) int    { return e.id(C.mjOBJ_JOINT, "joint", name) }
func (e *mujoco) actuator(name string) int { return e.id(C.mjOBJ_ACTUATOR, "actuator", name) }

func (e *mujoco) reset() { C.mj_resetData(e.m, e.d) }

// numbers is a C array of mjtNum as a slice.
func numbers(p *C.mjtNum, n C.int) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(p)), int(n))
}

func ints(p *C.int, n C.int) []C.int { return unsafe.Slice(p, int(n)) }

func (e *mujoco) setBody(body int, p frames.Pose) {
	q := wxyz(p.Rot)
	if mocap := int(ints(e.m.body_mocapid, e.m.nbody)[body]); mocap >= 0 {
		copy(numbers(e.d.mocap_pos, 3*e.m.nmocap)[3*mocap:], []float64{p.Pos.X, p.Pos.Y, p.Pos.Z})
		copy(numbers(e.d.mocap_quat, 4*e.m.nmocap)[4*mocap:], q[:])
		return
	}
	joint := ints(e.m.body_jntadr, e.m.nbody)[body]
	at := numbers(e.d.qpos, e.m.nq)[ints(e.m.jnt_qposadr, e.m.njnt)[joint]:]
	copy(at, []float64{p.Pos.X, p.Pos.Y, p.Pos.Z, q[0], q[1], q[2], q[3]})
}

func (e *mujoco) setJoint(joint int, q float64) {
	numbers(e.d.qpos, e.m.nq)[ints(e.m.jnt_qposadr, e.m.njnt)[joint]] = q
}

func (e *mujoco) stillBody(body int) {
	clear(numbers(e.d.qvel, e.m.nv)[ints(e.m.body_dofadr, e.m.nbody)[body]:][:6])
}

func (e *mujoco) stillJoint(joint int) {
	numbers(e.d.qvel, e.m.nv)[ints(e.m.jnt_dofadr, e.m.njnt)[joint]] = 0
}

func (e *mujoco) setControl(actuator int, value float64) {
	numbers(e.d.ctrl, e.m.nu)[actuator] = value
}

func (e *mujoco) forward() { C.mj_forward(e.m, e.d) }

func (e *mujoco) step(ticks int) error {
	if bad := C.pinch_step(e.m, e.d, C.int(ticks), firstCompensated); bad != 0 {
		return fmt.Errorf("step the cell: %d states not finite or too large; the scene is not physical", int(bad))
	}
	return nil
}

func (e *mujoco) pose(body int) frames.Pose {
	p := numbers(e.d.xpos, 3*e.m.nbody)[3*body:]
	q := numbers(e.d.xquat, 4*e.m.nbody)[4*body:]
	return frames.Pose{Pos: vec(p[0], p[1], p[2]), Rot: fromWXYZ([4]float64(q[:4]))}
}

func (e *mujoco) jointState(joint int) (q, dq float64) {
	return numbers(e.d.qpos, e.m.nq)[ints(e.m.jnt_qposadr, e.m.njnt)[joint]], numbers(e.d.qvel, e.m.nv)[ints(e.m.jnt_dofadr, e.m.njnt)[joint]]
}

func (e *mujoco) speed(body int) (linear, angular float64) {
	v := numbers(e.d.qvel, e.m.nv)[ints(e.m.body_dofadr, e.m.nbody)[body]:]
	return math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2]), math.Sqrt(v[3]*v[3] + v[4]*v[4] + v[5]*v[5])
}

func (e *mujoco) contacts(f func(a, b string)) {
	for _, c := range unsafe.Slice(e.d.contact, int(e.d.ncon)) {
		if c.efc_address >= 0 {
			f(e.geomNames[c.geom1], e.geomNames[c.geom2])
		}
	}
}
