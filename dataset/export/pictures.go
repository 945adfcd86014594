package export

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// pictures writes a camera: coded pictures as they are where they may be taken so, else as JPEG.
func (x *exporter) pictures(e dataset.EpisodeMeta, f dataset.Feature) error {
	if f.DType == dataset.Image {
		return x.stills(e, f)
	}
	path, first, err := x.d.VideoFrame(e.Index, f.Name)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		rel, _ := filepath.Rel(x.d.Root(), path)
		x.note("camera %q left out where its file is missing (episode %d: %s)", f.Name, e.Index, rel)
		return nil
	}
	if err != nil {
		return err
	}
	x.closers = append(x.closers, func() { file.Close() })
	st, err := file.Stat()
	if err != nil {
		return err
	}
	index, err := video.ReadIndex(file, st.Size(), path)
	if err != nil {
		return err
	}
	if index.Frames() < first+e.Length {
		return fmt.Errorf("%s has %d frames, the episode needs frames %d to %d", path, index.Frames(), first, first+e.Length-1)
	}
	repack, err := newRepacker(index.Info)
	if err == nil && !index.Key[first] {
		err = fmt.Errorf("the episode does not begin on a key frame")
	}
	if err != nil {
		x.note("camera %q: pictures encoded anew as JPEG, because %v", f.Name, err)
		return x.decoded(f, path, first)
	}
	id, err := x.foxglove(topic(f.Name), "CompressedVideo")
	if err != nil {
		return err
	}
	frame := x.frames.camera(f.Name)
	var packed, data, out []byte
	x.add(func(r int, ns int64) (err error) {
		if packed, err = index.Packet(file, first+r, packed); err != nil {
			return err
		}
		if data, err = repack.packet(data[:0], packed, index.Key[first+r]); err != nil {
			return fmt.Errorf("frame %d of %s: %w", first+r, path, err)
		}
		out = encodeVideo(out[:0], ns, frame, repack.format(), data)
		return x.put(id, ns, out)
	})
	return nil
}

// decoded writes JPEGs of decoded pictures.
func (x *exporter) decoded(f dataset.Feature, path string, first int) error {
	in, err := video.Open(path, video.ReaderOptions{})
	if err != nil {
		return err
	}
	x.closers = append(x.closers, func() { in.Close() })
	id, err := x.foxglove(topic(f.Name), "CompressedImage")
	if err != nil {
		return err
	}
	w, h := in.Size()
	img, rgb := image.NewRGBA(image.Rect(0, 0, w, h)), make([]byte, 3*w*h)
	x.add(func(r int, ns int64) error {
		if err := in.Frame(first+r, rgb); err != nil {
			return err
		}
		for p := range w * h {
			img.Pix[4*p], img.Pix[4*p+1], img.Pix[4*p+2], img.Pix[4*p+3] = rgb[3*p], rgb[3*p+1], rgb[3*p+2], 255
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 92}); err != nil {
			return err
		}
		return x.put(id, ns, encodeImage(nil, ns, x.frames.camera(f.Name), "jpeg", b.Bytes()))
	})
	return nil
}

// stills writes picture files as they are.
func (x *exporter) stills(e dataset.EpisodeMeta, f dataset.Feature) error {
	files, err := x.d.Pictures(f.Name, e.Index)
	if err != nil {
		return err
	}
	id, err := x.foxglove(topic(f.Name), "CompressedImage")
	if err != nil {
		return err
	}
	x.add(func(r int, ns int64) error {
		kind, ok := strings.CutPrefix(http.DetectContentType([]byte(files[r])), "image/")
		if !ok {
			return fmt.Errorf("%q holds no picture", f.Name)
		}
		return x.put(id, ns, encodeImage(nil, ns, x.frames.camera(f.Name), kind, []byte(files[r])))
	})
	return nil
}
