package camera

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gortsplib/v4"
	"github.com/bluenviron/gortsplib/v4/pkg/base"
	"github.com/bluenviron/gortsplib/v4/pkg/description"
	"github.com/bluenviron/gortsplib/v4/pkg/format"
	"github.com/bluenviron/gortsplib/v4/pkg/format/rtph264"
	"github.com/bluenviron/gortsplib/v4/pkg/format/rtpmjpeg"
	"github.com/pion/rtp"
)

// This file is the only one of the package that knows the RTSP library (gortsplib v4).

// connection is one playing RTSP session.
type connection interface {
	wait() error // blocks until the session ends and tells why
	close()
}

// streamHandler receives what a session delivers, from one goroutine.
type streamHandler struct {
	found  func(c Codec, un unpacker, sets parameterSets) // once, before the first packet
	packet func(p packet)
	lost   func(packets uint64)
}

// errNoVideo: the address answers but offers nothing that is read here.
var errNoVideo = errors.New("it offers neither Motion-JPEG nor H.264 video")

const rtspTimeout = 5 * time.Second

// dialRTSP connects, picks the first Motion-JPEG or H.264 stream, and plays it. Once it plays, silence of quiet ends the connection.
func dialRTSP(ctx context.Context, address string, udp bool, quiet time.Duration, h streamHandler) (connection, error) {
	u, err := base.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("camera address %q: %w", address, err)
	}
	transport := gortsplib.TransportTCP
	c := &gortsplib.Client{Scheme: u.Scheme, Host: u.Host, ReadTimeout: quiet, WriteTimeout: rtspTimeout}
	if udp {
		transport = gortsplib.TransportUDP
		// Key frames of several cameras at once overflow the usual 208 KiB.
		c.UDPReadBufferSize = 2 << 20
	}
	c.Transport = &transport
	c.OnPacketsLost = h.lost
	c.OnDecodeError = func(error) {}
	c.DialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: rtspTimeout}
		return d.DialContext(ctx, network, addr)
	}
	if err := c.Start2(); err != nil {
		return nil, err
	}
	// The client's own limit is for the time that it plays; greeting it takes rtspTimeout at most, and ends with ctx.
	var late atomic.Bool
	timer := time.AfterFunc(rtspTimeout, func() { late.Store(true); c.Close() })
	stop := context.AfterFunc(ctx, c.Close)
	err = play(c, u, h)
	timer.Stop()
	stop()
	if late.Load() {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return session{c}, nil
}

func play(c *gortsplib.Client, u *base.URL, h streamHandler) error {
	desc, _, err := c.Describe(u)
	if err != nil {
		return err
	}
	medi, forma, err := pick(desc, h)
	if err != nil {
		return err
	}
	if _, err := c.Setup(desc.BaseURL, medi, 0, 0); err != nil {
		return err
	}
	c.OnPacketRTP(medi, forma, func(pkt *rtp.Packet) {
		h.packet(packet{timestamp: pkt.Timestamp, marker: pkt.Marker, capture: pkt.GetExtension(CaptureExtension), unpack: pkt})
	})
	_, err = c.Play(nil)
	return err
}

func pick(desc *description.Session, h streamHandler) (*description.Media, format.Format, error) {
	var mj *format.MJPEG
	if m := desc.FindFormat(&mj); m != nil {
		d, err := mj.CreateDecoder()
		if err != nil {
			return nil, nil, err
		}
		h.found(MJPEG, &mjpegUnpacker{d}, parameterSets{})
		return m, mj, nil
	}
	var hf *format.H264
	if m := desc.FindFormat(&hf); m != nil {
		un := &h264Unpacker{format: hf}
		un.reset()
		h.found(H264, un, parameterSets{sps: hf.SPS, pps: hf.PPS})
		return m, hf, nil
	}
	return nil, nil, errNoVideo
}

type session struct{ c *gortsplib.Client }

func (s session) wait() error { return s.c.Wait() }
func (s session) close()      { s.c.Close() }

type mjpegUnpacker struct{ d *rtpmjpeg.Decoder }

func (u *mjpegUnpacker) add(p packet) (unit, bool, error) {
	jpeg, err := u.d.Decode(p.unpack.(*rtp.Packet))
	if errors.Is(err, rtpmjpeg.ErrMorePacketsNeeded) {
		return unit{}, false, nil
	}
	return unit{jpeg: jpeg}, err == nil, err
}

// reset has nothing to do: a fragment with offset 0 starts the decoder anew.
func (u *mjpegUnpacker) reset() {}

type h264Unpacker struct {
	format *format.H264
	d      *rtph264.Decoder
}

func (u *h264Unpacker) add(p packet) (unit, bool, error) {
	if u.d == nil {
		return unit{}, false, errors.New("no H.264 decoder")
	}
	nalus, err := u.d.Decode(p.unpack.(*rtp.Packet))
	if errors.Is(err, rtph264.ErrMorePacketsNeeded) {
		return unit{}, false, nil
	}
	return unit{nalus: nalus}, err == nil, err
}

// reset makes a new decoder, because the old one would put the next frame's units behind those of the unfinished one.
func (u *h264Unpacker) reset() {
	d, err := u.format.CreateDecoder()
	if err != nil {
		d = nil
	}
	u.d = d
}
