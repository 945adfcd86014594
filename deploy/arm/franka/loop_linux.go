package franka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// silence is how long the loop waits for a state before it looks after other things.
const silence = 20 * time.Millisecond

// Report is what the loop tells the process each period.
type Report struct {
	TNS      int64 // of the clock that the executor sees
	Q, DQ    fci.Joints
	QC, DQC  fci.Joints
	FingerC  float64
	Mode     armlink.Mode
	Reason   string
	Robot    fci.RobotMode
	Errors   fci.Errors
	Begun    int  // motions since the process began
	Running  bool // a motion runs
	Judging  bool // its link is being judged
	LinkRate float64
}

// loop answers states. One locked thread owns it; others reach it through calls and reports.
type loop struct {
	core    *Core
	fd      int
	version fci.Version
	peer    unix.RawSockaddrInet4 // the arm; port 0 until its first state
	armIP   [4]byte
	period  uint64 // ms
	log     *slog.Logger

	lockStep bool
	held     bool  // lock-step: an executor grants time
	grant    int64 // ns

	offset  int64 // executor's clock minus the arm's, ns
	aligned bool
	shown   int64 // executor's clock in the last report; it never runs back

	calls   chan func(*loop)
	reports chan Report
	stop    chan struct{} // closed by the process
	done    chan struct{} // closed by the loop

	state   fci.State
	fresh   bool // state has been filled since the connection
	arrived int64
	timing  Timing
	late    int // lost commands in a row
	lost    int // Link.Lost at the last state
	rx, alt []byte
	tx      [512]byte
}

func newLoop(fd int, period time.Duration, lockStep bool, log *slog.Logger) *loop {
	return &loop{fd: fd, period: uint64(period / time.Millisecond), lockStep: lockStep, log: log, calls: make(chan func(*loop), 64),
		reports: make(chan Report, 64), stop: make(chan struct{}), done: make(chan struct{}), rx: make([]byte, fci.MaxDatagram), alt: make([]byte, fci.MaxDatagram)}
}

// listenUDP opens the socket that states come to, and returns its port.
func listenUDP() (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("open a UDP socket: %w", err)
	}
	tv := unix.NsecToTimeval(int64(silence))
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv), unix.Bind(fd, &unix.SockaddrInet4{}))
	if err == nil {
		var sa unix.Sockaddr
		if sa, err = unix.Getsockname(fd); err == nil {
			return fd, sa.(*unix.SockaddrInet4).Port, nil
		}
	}
	unix.Close(fd)
	return 0, 0, fmt.Errorf("open a UDP socket: %w", err)
}

// attach tells the loop which arm is connected now. Run it on the loop or before the loop starts.
func (l *loop) attach(v fci.Version, ip net.IP) {
	l.version = v
	copy(l.armIP[:], ip.To4())
	l.peer = unix.RawSockaddrInet4{}
	l.fresh, l.aligned = false, false
	l.state = fci.State{}
}

// run answers states until stop is closed. priority 0: an ordinary thread.
func (l *loop) run(priority, cpu int) {
	defer close(l.done)
	runtime.LockOSThread() // never unlocked: the thread ends with the loop and its priority with it
	if priority > 0 {
		if err := prepareThread(priority, cpu); err != nil {
			l.log.Warn("the loop runs without real-time guarantees", "err", err)
		}
	}
	quiet := 0
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		if l.receive() {
			quiet = 0
			if l.lockStep { // the report of a grant's last state comes before the wait for the next grant
				l.account()
				l.hold()
			}
			l.answer()
			if !l.lockStep {
				l.account()
			}
		} else if quiet++; quiet == 2 && l.fresh && !l.lockStep { // in lock-step time may stand
			l.core.Lost(fmt.Sprintf("no state came from the arm for %v", 2*silence))
			l.report(false)
		} else if quiet > 2 {
			l.report(false)
		}
		l.serveCalls()
	}
}

// serveCalls runs what the process asks for.
func (l *loop) serveCalls() {
	for {
		select {
		case f := <-l.calls:
			f(l)
		default:
			return
		}
	}
}

// receive waits for the newest state. Raw system calls keep the runtime's scheduler out of the way: the thread sleeps in the kernel and goes on
// where it was.
func (l *loop) receive() bool {
	flags := uintptr(0)
	if l.lockStep { // there the runtime's scheduler is welcome: others of this process may have to run before a state can come
		fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, int(silence/time.Millisecond))
		flags = unix.MSG_DONTWAIT
	}
	n, errno := l.recv(l.rx, flags)
	for errno == unix.EINTR {
		n, errno = l.recv(l.rx, flags)
	}
	if errno != 0 {
		return false
	}
	newest := id(l.rx[:n])
	for { // states that queued up behind it
		m, errno := l.recv(l.alt, unix.MSG_DONTWAIT)
		if errno != 0 {
			return l.take(l.rx[:n])
		}
		if i := id(l.alt[:m]); i > newest {
			newest, n = i, m
			l.rx, l.alt = l.alt, l.rx
		}
	}
}

// id is a state's message id; 0 for bytes that are none.
func id(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// take decodes a datagram; older states and foreign bytes are left.
func (l *loop) take(b []byte) bool {
	if l.fresh && id(b) <= l.state.MessageID {
		return false
	}
	if err := fci.DecodeState(l.version, b, &l.state); err != nil {
		if l.fresh {
			l.core.Lost(err.Error())
		}
		return false
	}
	l.fresh = true
	now := time.Now().UnixNano()
	if l.arrived != 0 {
		l.timing.Gap.add(time.Duration(now - l.arrived))
	}
	l.arrived = now
	l.align(now)
	return true
}

// recv reads one datagram of the arm. After every signal it returns EINTR instead of going on by itself: the runtime stops a goroutine where a
// function begins, not inside a raw call. A loop around the call would start its wait anew with each signal that asks it to stop, and keep the
// collector, and with it the whole process, waiting for the next datagram; where a simulated arm shares the process, that one never comes.
//
//go:noinline
func (l *loop) recv(b []byte, flags uintptr) (int, unix.Errno) {
	var from unix.RawSockaddrInet4
	size := uint32(unix.SizeofSockaddrInet4)
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(l.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags,
		uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)))
	switch {
	case errno != 0:
		return 0, errno
	case !l.isArm(from.Addr):
		return 0, unix.EAGAIN
	}
	l.peer = from
	return int(n), 0
}

// isArm tells the arm's address; on this machine itself, where simulated arms are, one address is as good as another.
func (l *loop) isArm(a [4]byte) bool { return a == l.armIP || (a[0] == 127 && l.armIP[0] == 127) }

// align keeps the executor's clock, which is this machine's, beside the arm's; a path under way is stretched by at most a hundredth.
func (l *loop) align(now int64) {
	if l.lockStep {
		return
	}
	diff := now - int64(l.state.MessageID)*tickNS - l.offset
	const jump = 250 * tickNS // more than a drift; an arm whose states are that late has stopped long before
	switch {
	case !l.aligned || diff > jump || diff < -jump:
		if mode, _ := l.core.Mode(); l.aligned && mode == armlink.ModeMoving {
			l.core.Stop(fmt.Sprintf("the loop was held up, or the clock was set, by %v", time.Duration(diff)))
		}
		l.offset += diff
		l.aligned = true
	default:
		l.offset += min(max(diff/64, -tickNS/100), tickNS/100)
	}
}

// hold waits in lock-step until the executor lets time pass.
func (l *loop) hold() {
	for l.lockStep && l.held && int64(l.state.MessageID+1)*tickNS > l.grant {
		select {
		case f := <-l.calls:
			f(l)
		case <-l.stop:
			return
		}
	}
}

// answer is the part that must not wait.
func (l *loop) answer() {
	cmd := l.core.State(&l.state)
	if !cmd.Send {
		if !l.lockStep {
			return
		}
		cmd.Q = l.state.QD // no motion runs: the answer only lets a simulated arm's time pass
	}
	b := fci.EncodeJointPosition(l.version, l.tx[:], l.state.MessageID, &cmd.Q, cmd.Finished)
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(l.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0,
		uintptr(unsafe.Pointer(&l.peer)), unix.SizeofSockaddrInet4)
	l.timing.Answer.add(time.Duration(time.Now().UnixNano() - l.arrived))
}

// account counts and reports.
func (l *loop) account() {
	if lost := l.core.Stats.Lost; lost > l.lost {
		l.late += lost - l.lost
		l.lost = lost
		l.timing.LongestLate = max(l.timing.LongestLate, l.late)
	} else {
		l.late = 0
	}
	end := l.lockStep && l.held && int64(l.state.MessageID)*tickNS >= l.grant
	if l.state.MessageID%l.period == 0 || end {
		l.report(l.lockStep && l.held)
	}
}

// report tells the process; must waits for room, which only lock-step may.
func (l *loop) report(must bool) {
	l.shown = max(l.shown, l.nowNS())
	r := Report{TNS: l.shown, Q: l.state.Q, DQ: l.state.DQ, Robot: l.state.Mode, Errors: l.state.Errors | l.state.LastErrors,
		Begun: l.core.begun, Running: l.core.phase == phaseRunning, Judging: l.core.phase == phaseRunning && l.core.test.left > 0, LinkRate: l.state.SuccessRate}
	r.QC, r.DQC, r.FingerC = l.core.Commanded()
	r.Mode, r.Reason = l.core.Mode()
	for must {
		select {
		case l.reports <- r:
			return
		case f := <-l.calls: // whoever reads the reports may be waiting for a call
			f(l)
		case <-l.stop:
			return
		}
	}
	select {
	case l.reports <- r:
	default:
	}
}

// nowNS is the executor's clock at the newest state.
func (l *loop) nowNS() int64 { return int64(l.state.MessageID)*tickNS + l.offset }
