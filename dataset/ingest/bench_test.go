package ingest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
	"golang.org/x/sync/errgroup"
)

// yubiShaped writes a recording of a YUBI rig: two wrist cameras at 640x480 and 60 Hz, about 37 KB a picture, poses at 72 Hz,
// finger angles at 100 Hz, one segment that leaves half a second at both ends.
func yubiShaped(b testing.TB, dir string, seconds int64, pictures [][]byte) string {
	l := newLog(b, dir, "bench", "rig")
	end := 5000*ms + seconds*1000*ms
	l.session(5500*ms, rawlog.EventSubtask, "bench")
	frame, pose, joint := int64(0), int64(0), int64(0)
	for {
		at := [3]int64{5000*ms + frame*16_666_667, 5000*ms + pose*13_888_889, 5000*ms + joint*10*ms}
		switch next := min(at[0], at[1], at[2]); {
		case next >= end:
			l.session(end-500*ms, rawlog.EventAccept, "bench")
			l.segment(5500*ms, end-500*ms, "bench", true)
			return l.close("yubi_portable", "77777777-2222-4333-8444-555555555555")
		case next == at[0]:
			for i, side := range []string{"left", "right"} {
				l.ros("/"+side+"_camera/image_raw/compressed", next, &rosmsg.CompressedImage{Header: header(next, "cam"), Format: "jpeg",
					Data: pictures[(int(frame)+i*len(pictures)/2)%len(pictures)]})
			}
			frame++
		case next == at[1]:
			for _, side := range []string{"left", "right"} {
				l.tf(next, "quest_origin", side+"_hand_root", handPose(side, next))
			}
			pose++
		default:
			l.joints(next, leftAngle(next), rightAngle(next))
			joint++
		}
	}
}

// scene is a moving textured scene with sensor-like noise (standard deviation 1.5 levels), as JPEG of quality 85.
func scene(b testing.TB, n int) (out [][]byte, mean int) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range n {
		img := image.NewYCbCr(image.Rect(0, 0, 640, 480), image.YCbCrSubsampleRatio420)
		for y := range 480 {
			for x := range 640 {
				u, v := float64(x+3*k), float64(y+k)
				l := 120 + 40*math.Sin(u/37)*math.Cos(v/29) + 18*math.Sin(u/5+v/9) + 12*math.Cos(u/3.1)*math.Sin(v/4.3)
				if int(u/64)%2 == int(v/48)%2 {
					l += 25
				}
				img.Y[y*img.YStride+x] = uint8(min(max(l+1.5*r.NormFloat64(), 0), 255))
			}
		}
		for y := range 240 {
			for x := range 320 {
				img.Cb[y*img.CStride+x] = uint8(128 + 30*math.Sin(float64(x+k)/60))
				img.Cr[y*img.CStride+x] = uint8(128 + 30*math.Cos(float64(y)/50))
			}
		}
		var buf bytes.Buffer
		if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: 85}); err != nil {
			b.Fatal(err)
		}
		out, mean = append(out, buf.Bytes()), mean+buf.Len()
	}
	return out, mean / n
}

// BenchmarkYUBIAgainstBareEncoding converts one recording of PINCH_BENCH_SECONDS (default 60) and, between the runs, does with ffmpeg
// alone what cannot be left out: decoding the same JPEG pictures and encoding them with the same settings, one process a camera
// on the same cores. It reports the ratio of the times, that of the
// processor times (on a machine that others use too), and the PSNR of the videos against the pictures.
//
//	go test -tags libav ./dataset/ingest -run '^$' -bench YUBI -benchtime 3x
func BenchmarkYUBIAgainstBareEncoding(b *testing.B) {
	testpeer.Program(b, "ffmpeg", "ffmpeg")
	seconds := int64(60)
	if s, err := strconv.Atoi(os.Getenv("PINCH_BENCH_SECONDS")); err == nil {
		seconds = int64(s)
	}
	dir := b.TempDir()
	pictures, size := scene(b, 60)
	yubiShaped(b, dir+"/rec", seconds, pictures)
	rows := int(seconds-1) * 30
	for side := range 2 { // rows show every second picture
		f, err := os.Create(fmt.Sprintf("%s/%d.mjpeg", dir, side))
		if err != nil {
			b.Fatal(err)
		}
		for k := range rows {
			if _, err := f.Write(pictures[(30+2*k+side*len(pictures)/2)%len(pictures)]); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	var ours, bare, oursCPU, bareCPU time.Duration
	var out string
	n := 0
	for b.Loop() {
		start, used := time.Now(), processorTime(b)
		bareEncoding(b, dir, n)
		bare, bareCPU = bare+time.Since(start), bareCPU+processorTime(b)-used
		out = fmt.Sprintf("%s/set%d", dir, n)
		start, used = time.Now(), processorTime(b)
		rep, err := Run(context.Background(), Options{Sources: []string{dir + "/rec"}, Out: out})
		ours, oursCPU = ours+time.Since(start), oursCPU+processorTime(b)-used
		if err != nil || rep.Rows != rows {
			b.Fatalf("%d rows, want %d: %v", rep.Rows, rows, err)
		}
		n++
	}
	b.ReportMetric(bare.Seconds()/ours.Seconds(), "of-bare")
	b.ReportMetric(bareCPU.Seconds()/oursCPU.Seconds(), "of-bare-cpu")
	b.ReportMetric(float64(n*rows)/30/ours.Seconds(), "x-realtime")
	b.ReportMetric(psnr(b, dir, out, pictures), "dB")
	b.ReportMetric(float64(size), "B/picture")
}

// processorTime is what this process and its finished children have used.
func processorTime(b testing.TB) (d time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return d
}

// bareEncoding encodes both files of pictures at the same time.
func bareEncoding(b *testing.B, dir string, n int) {
	var g errgroup.Group
	for side := range 2 {
		g.Go(func() error {
			args := []string{"-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-f", "mjpeg", "-framerate", "30", "-threads", "1",
				"-i", fmt.Sprintf("%s/%d.mjpeg", dir, side), "-vf", limitedRange,
				"-c:v", "libx264", "-preset", "ultrafast", "-tune", "fastdecode", "-crf", "23", "-g", "2", "-bf", "0", "-threads", "1",
				fmt.Sprintf("%s/bare%d-%d.mp4", dir, n, side)}
			return exec.Command("ffmpeg", args...).Run()
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// psnr is the luma PSNR, by ffmpeg's filter, of the left camera's rows against the pictures that they show.
func psnr(b testing.TB, dir, set string, pictures [][]byte) float64 {
	d, err := dataset.Open(set)
	if err != nil {
		b.Fatal(err)
	}
	times, err := dataset.ReadColumn[int64](d, "observation.capture_time.left", 0)
	if err != nil {
		b.Fatal(err)
	}
	var shown bytes.Buffer
	for row := range len(times) / 2 {
		shown.Write(pictures[int((times[2*row]-5000*ms+8_333_333)/16_666_667)%len(pictures)])
	}
	if err := os.WriteFile(dir+"/shown.mjpeg", shown.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	path, first, err := d.VideoFrame(0, "observation.image.left")
	if err != nil || first != 0 {
		b.Fatal(first, err)
	}
	out, err := exec.Command("ffmpeg", "-hide_banner", "-nostdin", "-i", path, "-f", "mjpeg", "-framerate", "30", "-i", dir+"/shown.mjpeg",
		"-lavfi", "[1:v]"+limitedRange+"[r];[0:v][r]psnr", "-f", "null", "-").CombinedOutput()
	var y float64
	_, text, ok := strings.Cut(string(out), "PSNR y:")
	if _, serr := fmt.Sscan(strings.Fields(text + " 0")[0], &y); err != nil || !ok || serr != nil {
		b.Fatalf("%v %v\n%s", err, serr, out)
	}
	return y
}

// limitedRange is what dataset videos hold: full-range JPEG levels in limited range.
const limitedRange = "scale=out_range=limited:out_color_matrix=bt601:flags=fast_bilinear,format=yuv420p"
