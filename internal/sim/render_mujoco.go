//go:build mujoco && cgo

package sim

/*
#include <stdlib.h>
#include <mujoco/mujoco.h>
#include <GL/osmesa.h>
#include <turbojpeg.h>

typedef struct {
	OSMesaContext gl;
	unsigned char* back; // OSMesa's own frame buffer; images are drawn into MuJoCo's offscreen buffer
	mjrContext con;
	tjhandle jpeg;
} pinch_gl;

// Makes a GL context current on this thread and MuJoCo's rendering state in it. NULL on failure, with the step that failed.
static pinch_gl* pinch_gl_open(const mjModel* m, const char** why) {
	pinch_gl* g = calloc(1, sizeof(pinch_gl));
	int attribs[] = {OSMESA_FORMAT, OSMESA_RGBA, OSMESA_DEPTH_BITS, 24, OSMESA_PROFILE, OSMESA_COMPAT_PROFILE, 0};
	g->gl = OSMesaCreateContextAttribs(attribs, NULL);
	if (!g->gl) { *why = "OSMesaCreateContextAttribs"; free(g); return NULL; }
	g->back = malloc(4 * 64 * 64);
	if (!OSMesaMakeCurrent(g->gl, g->back, GL_UNSIGNED_BYTE, 64, 64)) {
		*why = "OSMesaMakeCurrent"; OSMesaDestroyContext(g->gl); free(g->back); free(g); return NULL;
	}
	mjr_defaultContext(&g->con);
	mjr_makeContext(m, &g->con, mjFONTSCALE_100);
	mjr_setBuffer(mjFB_OFFSCREEN, &g->con);
	// The table fills the image and a texel is never smaller than a pixel there: without mipmaps a frame takes half the time.
	for (int i = 0; i < m->ntex; i++) {
		if (m->tex_type[i] != mjTEXTURE_2D) continue;
		glBindTexture(GL_TEXTURE_2D, g->con.texture[i]);
		glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR);
	}
	g->jpeg = tjInitCompress();
	if (g->con.currentBuffer != mjFB_OFFSCREEN || !g->jpeg) *why = "make an offscreen buffer";
	return g;
}

static void pinch_gl_close(pinch_gl* g) {
	tjDestroy(g->jpeg);
	mjr_freeContext(&g->con);
	OSMesaDestroyContext(g->gl);
	free(g->back);
	free(g);
}

// Describes what a camera sees now, as a list of coloured shapes: all that a render thread needs. scn may be reused.
static mjvScene* pinch_scene(const mjModel* m, mjData* d, int camera, mjvScene* scn) {
	if (!scn) {
		scn = calloc(1, sizeof(mjvScene));
		mjv_defaultScene(scn);
		mjv_makeScene(m, scn, 200);
	}
	mjvOption opt;
	mjv_defaultOption(&opt);
	mjvCamera cam;
	mjv_defaultCamera(&cam);
	cam.type = mjCAMERA_FIXED;
	cam.fixedcamid = camera;
	mjv_updateScene(m, d, &opt, NULL, &cam, mjCAT_ALL, scn);
	scn->flags[mjRND_SHADOW] = 0;
	scn->flags[mjRND_REFLECTION] = 0;
	return scn;
}

static void pinch_scene_free(mjvScene* scn) {
	mjv_freeScene(scn);
	free(scn);
}

// Draws a scene into rgbx, rows from the bottom. The buffer has no samples to resolve, and four bytes a pixel are how it lies in memory;
// mjr_readPixels wants three and so converts each pixel.
static void pinch_draw(pinch_gl* g, mjvScene* scn, int w, int h, unsigned char* rgbx) {
	mjrRect view = {0, 0, w, h};
	mjr_render(view, scn, &g->con);
	glReadBuffer(GL_COLOR_ATTACHMENT0);
	glPixelStorei(GL_PACK_ALIGNMENT, 1);
	glReadPixels(0, 0, w, h, GL_RGBA, GL_UNSIGNED_BYTE, rgbx);
}

// Baseline JPEG, 4:2:0, standard Huffman tables. The accurate DCT is the same on every machine. Caller frees *out with tjFree.
static int pinch_jpeg(pinch_gl* g, const unsigned char* rgbx, int w, int h, int quality, unsigned char** out, unsigned long* size) {
	return tjCompress2(g->jpeg, rgbx, w, 0, h, TJPF_RGBX, out, size, TJSAMP_420, quality, TJFLAG_BOTTOMUP | TJFLAG_ACCURATEDCT);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pinch-robotics/pinch/frames"
)

// names keeps the C copies of model names.
var names = struct {
	sync.Mutex
	known map[string]*C.char
}{known: map[string]*C.char{}}

// glSetup serialises the making of contexts: MuJoCo's table of GL functions is one per process.
var glSetup sync.Mutex

// renderPool is a set of locked threads, each with a GL context, and a stock of scene descriptions.
type renderPool struct {
	m       *C.mjModel
	quality int
	jobs    chan renderJob
	done    sync.WaitGroup

	mu    sync.Mutex // guards stock, the descriptions that are free
	stock []*C.mjvScene
}

type renderJob struct {
	scene *C.mjvScene
	shot  Shot
	out   *Pending
}

func newRenderPool(m *C.mjModel, cfg Config) (*renderPool, error) {
	// One rasteriser thread per context: the pool itself is the parallelism, and fewer threads mean fewer surprises.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	p := &renderPool{m: m, quality: cfg.JPEGQuality, jobs: make(chan renderJob, 4*cfg.RenderThreads)}
	ready := make(chan error)
	for range cfg.RenderThreads {
		p.done.Add(1)
		go p.work(ready)
	}
	var errs []error
	for range cfg.RenderThreads {
		errs = append(errs, <-ready)
	}
	if err := errors.Join(errs...); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *renderPool) close() {
	close(p.jobs)
	p.done.Wait()
	for _, scn := range p.stock {
		C.pinch_scene_free(scn)
	}
}

// work is one render thread, from its GL context's making to its end.
func (p *renderPool) work(ready chan<- error) {
	defer p.done.Done()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine and takes the context with it
	var why *C.char
	glSetup.Lock()
	g := C.pinch_gl_open(p.m, &why)
	glSetup.Unlock()
	if why != nil {
		ready <- fmt.Errorf("open offscreen OpenGL (OSMesa, Debian package libosmesa6): %s failed", C.GoString(why))
	} else {
		ready <- nil
	}
	if g == nil {
		return
	}
	var pixels []byte
	for job := range p.jobs {
		pixels = p.draw(g, job, pixels)
	}
	glSetup.Lock()
	C.pinch_gl_close(g)
	glSetup.Unlock()
}

// draw finishes one job. It draws into pixels, which grow when they have to, and returns them for the next.
func (p *renderPool) draw(g *C.pinch_gl, job renderJob, pixels []byte) []byte {
	f := &job.out.frame
	w, h := f.Size.Width, f.Size.Height
	if len(pixels) < 4*w*h {
		pixels = make([]byte, 4*w*h)
	}
	rgbx := (*C.uchar)(unsafe.Pointer(&pixels[0]))
	C.pinch_draw(g, job.scene, C.int(w), C.int(h), rgbx)
	p.give(job.scene)
	if job.shot.JPEG {
		var out *C.uchar
		var size C.ulong
		if C.pinch_jpeg(g, rgbx, C.int(w), C.int(h), C.int(p.quality), &out, &size) != 0 {
			job.out.err = fmt.Errorf("encode JPEG of camera %s: %s", f.Camera, C.GoString(C.tjGetErrorStr2(g.jpeg)))
		} else {
			f.JPEG = C.GoBytes(unsafe.Pointer(out), C.int(size))
			C.tjFree(out)
		}
	}
	if job.shot.RGB {
		f.RGB = topDown(pixels, w, h)
	}
	close(job.out.done)
	return pixels
}

// topDown makes RGB rows from the top of four bytes a pixel in rows from the bottom.
func topDown(rgbx []byte, w, h int) []byte {
	rgb := make([]byte, 3*w*h)
	for y := range h {
		from, to := rgbx[4*w*(h-1-y):][:4*w], rgb[3*w*y:][:3*w]
		for x := range w {
			copy(to[3*x:3*x+3], from[4*x:4*x+3])
		}
	}
	return rgb
}

// take gives a description from the stock, or nil.
func (p *renderPool) take() *C.mjvScene {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.stock); n > 0 {
		scn := p.stock[n-1]
		p.stock = p.stock[:n-1]
		return scn
	}
	return nil
}

func (p *renderPool) give(scn *C.mjvScene) {
	p.mu.Lock()
	p.stock = append(p.stock, scn)
	p.mu.Unlock()
}

func (e *mujoco) snapshot(shot Shot, size Size, at frames.DeviceTime) *Pending {
	out := &Pending{done: make(chan struct{}), frame: Frame{Camera: shot.Camera, Time: at, Size: size}}
	camera := C.mj_name2id(e.m, C.mjOBJ_CAMERA, cstr(string(shot.Camera)))
	e.render.jobs <- renderJob{C.pinch_scene(e.m, e.d, camera, e.render.take()), shot, out}
	return out
}
