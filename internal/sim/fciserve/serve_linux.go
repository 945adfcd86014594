package fciserve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Serve runs the arms until ctx ends (nil) or their world fails. Each arm takes one client after the other.
func Serve(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	var arms []*station
	var addrs []string
	for i, a := range o.Arms {
		st, err := openStation(i, a, o)
		if err != nil {
			for _, st := range arms {
				st.close()
			}
			cancel(err)
			return err
		}
		arms = append(arms, st)
		addrs = append(addrs, st.listener.Addr().String())
	}
	for _, st := range arms {
		wg.Add(1)
		go func() {
			defer wg.Done()
			st.accept(ctx)
		}()
		defer st.close()
	}
	if o.Ready != nil {
		o.Ready(addrs)
	}
	if o.Priority > 0 && !o.LockStep {
		defer prioritise(o)()
	}
	groups := [][]*station{arms}
	if o.Shared == nil && !o.LockStep {
		groups = nil
		for _, st := range arms {
			groups = append(groups, []*station{st})
		}
	}
	var loops sync.WaitGroup
	for _, g := range groups {
		loops.Add(1)
		go func() {
			defer loops.Done()
			if err := (&loop{Options: o, arms: g, rng: rand.New(rand.NewPCG(1, uint64(g[0].index)))}).run(ctx); err != nil {
				cancel(err)
			}
		}()
	}
	loops.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// station is one arm's sockets.
type station struct {
	index    int
	robot    *Robot
	listener net.Listener
	udp      int // socket, non-blocking
	phase    time.Duration
	log      *slog.Logger

	mu     sync.Mutex // guards robot and what follows
	client net.Conn   // nil: none
	peer   unix.SockaddrInet4
	once   bool // a client has been there
}

func openStation(index int, a ArmOptions, o Options) (*station, error) {
	l, err := net.Listen("tcp4", a.Listen)
	if err != nil {
		return nil, fmt.Errorf("simulated arm: listen at %s: %w", a.Listen, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		var at unix.SockaddrInet4
		copy(at.Addr[:], l.Addr().(*net.TCPAddr).IP.To4())
		if err = unix.Bind(fd, &at); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("simulated arm: open a UDP socket at %s: %w", a.Listen, err)
	}
	return &station{index: index, robot: a.Robot, listener: l, udp: fd, phase: a.Phase, log: o.Logger.With("part", "fciserve", "arm", l.Addr().String())}, nil
}

func (s *station) close() {
	s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
	}
	if s.udp >= 0 {
		unix.Close(s.udp)
		s.udp = -1
	}
}

// accept serves clients one after the other until the listener closes.
func (s *station) accept(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		if err := s.serve(nc); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.log.Info("a client left", "err", err)
		}
		s.mu.Lock()
		s.client = nil
		s.robot.Disconnect()
		s.mu.Unlock()
		nc.Close()
	}
}

// serve reads one client's requests.
func (s *station) serve(nc net.Conn) error {
	frame, err := readFrame(nc)
	if err != nil {
		return err
	}
	s.mu.Lock()
	answer, port, err := s.robot.Connect(frame)
	if err == nil {
		_, err = nc.Write(answer)
	}
	if err == nil && port != 0 {
		copy(s.peer.Addr[:], nc.RemoteAddr().(*net.TCPAddr).IP.To4())
		s.peer.Port = port
		s.client, s.once = nc, true
	}
	s.mu.Unlock()
	if err != nil || port == 0 {
		return err
	}
	for {
		frame, err := readFrame(nc)
		if err != nil {
			return err
		}
		s.mu.Lock()
		err = s.robot.Request(frame)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// maxRequest bounds a request; the longest has 428 bytes.
const maxRequest = 4096

func readFrame(r io.Reader) ([]byte, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[8:])
	if size < 12 || size > maxRequest {
		return nil, fmt.Errorf("a request states %d bytes", size)
	}
	frame := append(head[:], make([]byte, size-12)...)
	_, err := io.ReadFull(r, frame[12:])
	return frame, err
}

// loop ticks arms that share a world, or one arm.
type loop struct {
	Options
	arms []*station
	rng  *rand.Rand
}

func (l *loop) run(ctx context.Context) error {
	runtime.LockOSThread() // the thread ends with the loop, and its priority with it
	if l.Priority > 0 && !l.LockStep {
		_ = schedule(0, unix.SCHED_FIFO, l.Priority)
	}
	next := time.Now().Truncate(time.Millisecond).Add(time.Millisecond + l.arms[0].phase)
	for ctx.Err() == nil {
		if l.LockStep {
			if !l.wait(ctx) {
				continue
			}
		} else {
			sleepUntil(next)
			if now := time.Now(); now.Sub(next) > time.Millisecond/2 {
				next = now // held up: the arm's clock stood meanwhile, it does not hurry
			}
			next = next.Add(time.Millisecond)
		}
		if err := l.tick(); err != nil {
			return err
		}
	}
	return nil
}

// prioritise gives every thread of the process the clocks' real-time priority, so that what a clock needs of the runtime never waits behind other
// programs, and room for the clocks beside the rest. All have the same one: the runtime waits for its threads by yielding, which reaches equals only.
// The function returned takes it back.
func prioritise(o Options) (undo func()) {
	raised.Lock()
	defer raised.Unlock()
	raised.n++
	was := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(was + len(o.Arms))
	if err := everyThread(unix.SCHED_FIFO, o.Priority); err != nil {
		o.Logger.Info("the arms' clocks run without real-time priority", "err", err)
	}
	return func() {
		raised.Lock()
		defer raised.Unlock()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - len(o.Arms))
		if raised.n--; raised.n == 0 {
			_ = everyThread(unix.SCHED_NORMAL, 0)
		}
	}
}

// raised counts the servers that want the process's threads at real-time priority.
var raised struct {
	sync.Mutex
	n int
}

// everyThread schedules all threads; new ones inherit it. Threads that come while it looks are found in the next round.
func everyThread(policy uint32, priority int) error {
	seen := 0
	for round := 0; round < 10; round++ {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, _ := strconv.Atoi(t.Name())
			if err := schedule(tid, policy, priority); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if len(tasks) == seen {
			return nil
		}
		seen = len(tasks)
	}
	return nil
}

func schedule(tid int, policy uint32, priority int) error {
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: uint32(priority)}, 0)
}

// sleepUntil sleeps on the kernel's clock, in a raw call: the thread goes on where it was without asking the runtime's scheduler.
func sleepUntil(t time.Time) {
	for {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
}

// wait returns true when every client has answered the last state, or had its time to. No client, or one that has not come yet: no time passes.
func (l *loop) wait(ctx context.Context) bool {
	clients := 0
	for _, s := range l.arms {
		s.mu.Lock()
		if !s.once {
			s.mu.Unlock()
			time.Sleep(time.Millisecond)
			return false
		}
		if s.client != nil {
			clients++
		}
		s.mu.Unlock()
	}
	if clients == 0 {
		time.Sleep(time.Millisecond)
		return false
	}
	waited := false
	for _, s := range l.arms {
		s.mu.Lock()
		waited = waited || s.robot.due()
		s.mu.Unlock()
		if !s.await(ctx) {
			return false
		}
	}
	if !waited { // nobody answers yet: time passes by itself
		sleepUntil(time.Now().Add(time.Millisecond))
	}
	return true
}

// await waits for the client's answer to the last state if one is due, however long that takes: a client that leaves ends the wait.
func (s *station) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		s.drain()
		done := s.client == nil || s.robot.cmd != nil || !s.robot.due()
		fd := s.udp
		s.mu.Unlock()
		if done || fd < 0 {
			return true
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, 5)
	}
	return false
}

// drain takes all datagrams that have come.
func (s *station) drain() {
	var b [512]byte
	for s.udp >= 0 {
		n, from, err := unix.Recvfrom(s.udp, b[:], unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		if f, ok := from.(*unix.SockaddrInet4); ok && !s.robot.cut && s.client != nil && f.Port == s.peer.Port && f.Addr == s.peer.Addr {
			s.robot.Command(b[:n])
		}
	}
}

// tick closes the cycle of every arm and opens the next.
func (l *loop) tick() error {
	for _, s := range l.arms {
		s.mu.Lock()
		s.drain()
		if l.Control != nil {
			l.Control(s.index, s.robot)
		}
		s.robot.Close()
		s.mu.Unlock()
	}
	if l.Shared != nil {
		if err := l.Shared(); err != nil {
			return err
		}
	}
	if l.Jitter > 0 && !l.LockStep {
		sleepUntil(time.Now().Add(time.Duration(l.rng.Int64N(int64(l.Jitter)))))
	}
	for _, s := range l.arms {
		s.publish()
	}
	return nil
}

// publish sends the next state and the answers that wait.
func (s *station) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, answers := s.robot.Open()
	s.robot.sent = s.client != nil
	if s.robot.cut {
		s.robot.answers = answers // they arrive when the cable is back
		return
	}
	if s.client == nil || s.udp < 0 {
		return
	}
	for _, a := range answers {
		if _, err := s.client.Write(a); err != nil {
			s.client.Close()
		}
	}
	_ = unix.Sendto(s.udp, state, unix.MSG_DONTWAIT, &s.peer)
}
