package ingest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"testing"

	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// BenchmarkIngest converts a recording of 20 s with two wrist cameras at 640x480, 60 Hz, about 40 KB a picture, and reports how many
// seconds of recording a second of work converts.
func BenchmarkIngest(b *testing.B) {
	testpeer.Program(b, "ffmpeg", "ffmpeg")
	dir := b.TempDir()
	const seconds = 20
	pictures := noisyPictures(b, 30)
	l := newLog(b, dir+"/rec", "bench", "rig")
	l.session(5100*ms, rawlog.EventSubtask, "bench")
	for i := range int64(seconds * 60) {
		at := 5000*ms + i*16_666_667
		for _, side := range []string{"left", "right"} {
			l.tf(at, "quest_origin", side+"_hand_root", handPose(side, at))
			l.ros("/"+side+"_camera/image_raw/compressed", at, &rosmsg.CompressedImage{Header: header(at, "cam"), Format: "jpeg", Data: pictures[int(i)%len(pictures)]})
		}
		l.joints(at, leftAngle(at), rightAngle(at))
	}
	l.session((4900+seconds*1000)*ms, rawlog.EventAccept, "bench")
	l.segment(5100*ms, (4900+seconds*1000)*ms, "bench", true)
	l.close("yubi", "77777777-2222-4333-8444-555555555555")
	n := 0
	recorded := 0.0
	for b.Loop() {
		rep, err := Run(context.Background(), Options{Sources: []string{dir + "/rec"}, Out: fmt.Sprintf("%s/set%d", dir, n)})
		if err != nil {
			b.Fatal(err)
		}
		n++
		recorded += rep.RecordedSeconds
	}
	b.ReportMetric(recorded/b.Elapsed().Seconds(), "x-realtime")
}

// noisyPictures are textured pictures that move, with sensor-like noise.
func noisyPictures(b *testing.B, n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	var out [][]byte
	for k := range n {
		img := image.NewRGBA(image.Rect(0, 0, 640, 480))
		for y := range 480 {
			for x := range 640 {
				i := img.PixOffset(x, y)
				v := (x+3*k)/9*37%200 + y/7*23%40 + r.IntN(9)
				img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = uint8(v), uint8(255-v), uint8((v*3+y)%256), 255
			}
		}
		var buf bytes.Buffer
		if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: 60}); err != nil {
			b.Fatal(err)
		}
		out = append(out, buf.Bytes())
	}
	return out
}
