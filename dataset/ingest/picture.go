package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"image/jpeg"
	"strings"

	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// picture notes one camera message: its times, and the picture size of the first one. n counts the messages of the topic.
func (s *survey) picture(c *camera, m rawlog.Message, n int) error {
	if c.video {
		return s.accessUnit(c, m, n)
	}
	var img rosmsg.CompressedImage
	if err := img.UnmarshalCDR(m.Data); err != nil {
		return err
	}
	if f := strings.ToLower(img.Format); f != "" && !strings.Contains(f, "jpeg") && !strings.Contains(f, "jpg") {
		return fmt.Errorf("picture format %q; want jpeg", img.Format)
	}
	if !bytes.HasPrefix(img.Data, []byte{0xff, 0xd8}) {
		return fmt.Errorf("picture of %d bytes is no JPEG (it does not start with FF D8)", len(img.Data))
	}
	if c.width == 0 {
		cfg, err := jpeg.DecodeConfig(bytes.NewReader(img.Data))
		if err != nil {
			return fmt.Errorf("picture: %w", err)
		}
		c.width, c.height = cfg.Width, cfg.Height
	}
	sm := s.align.sampleOf(m, img.Header.Stamp.Nanos(), n)
	sm.same = s.before.picture(c.name, img.Data)
	c.samples = append(c.samples, sm)
	return nil
}

// accessUnit notes one frame of an H.264 stream. Units before the first key frame cannot be decoded and are no samples.
func (s *survey) accessUnit(c *camera, m rawlog.Message, n int) error {
	var v rosmsg.CompressedVideo
	if err := v.UnmarshalCDR(m.Data); err != nil {
		return err
	}
	if v.Format != "h264" {
		return fmt.Errorf("video format %q; want h264", v.Format)
	}
	var au h264.AnnexB
	if err := au.Unmarshal(v.Data); err != nil {
		return fmt.Errorf("access unit: %w", err)
	}
	if c.width == 0 {
		if !h264.IsRandomAccess(au) {
			c.skipped = n + 1
			return nil
		}
		w, h, err := sizeOf(au)
		if err != nil {
			return err
		}
		c.width, c.height = w, h
	}
	sm := s.align.sampleOf(m, v.Timestamp.Nanos(), n)
	sm.key = c.units.See(au)
	c.samples = append(c.samples, sm)
	return nil
}

// sizeOf reads the picture size from the parameter set of a key frame.
func sizeOf(au h264.AnnexB) (width, height int, err error) {
	for _, nalu := range au {
		if len(nalu) > 0 && h264.NALUType(nalu[0]&0x1f) == h264.NALUTypeSPS {
			var sps h264.SPS
			if err := sps.Unmarshal(nalu); err != nil {
				return 0, 0, fmt.Errorf("sequence parameter set: %w", err)
			}
			return sps.Width(), sps.Height(), nil
		}
	}
	return 0, 0, errors.New("key frame without a sequence parameter set")
}

// pictureData is the picture in a camera message; it shares the message's memory.
func pictureData(c *camera, m rawlog.Message) ([]byte, error) {
	if c.video {
		var v rosmsg.CompressedVideo
		err := v.UnmarshalCDR(m.Data)
		return v.Data, err
	}
	var img rosmsg.CompressedImage
	err := img.UnmarshalCDR(m.Data)
	return img.Data, err
}
