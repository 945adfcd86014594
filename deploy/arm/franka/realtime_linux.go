package franka

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// heapLimit is where the collector runs after all; without motion it is run by hand.
const heapLimit = 512 << 20

// prepareProcess locks memory, keeps the collector away and gives every thread of the process the loop's real-time priority. All the same one: the
// runtime waits for its own threads by yielding, which a FIFO thread does for its equals only; with a lower one behind it, or an ordinary one, it would
// yield for ever. It returns what could not be had.
func prepareProcess(priority int) error {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(heapLimit)
	runtime.GOMAXPROCS(max(4, runtime.NumCPU()+1)) // the loop keeps one for itself
	var missing []error
	if b, err := os.ReadFile("/sys/kernel/realtime"); err != nil || strings.TrimSpace(string(b)) != "1" {
		missing = append(missing, errors.New("the kernel is no real-time kernel (PREEMPT_RT)"))
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE); err != nil {
		missing = append(missing, fmt.Errorf("memory can not be locked (raise memlock in /etc/security/limits.conf): %w", err))
	}
	if err := everyThread(priority); err != nil {
		missing = append(missing, fmt.Errorf("real-time priority is refused (set rtprio in /etc/security/limits.conf): %w", err))
	}
	return errors.Join(missing...)
}

// everyThread sets the priority of all threads; new ones inherit it. Threads that come while it looks are found in the next round.
func everyThread(priority int) error {
	seen := 0
	for round := 0; round < 10; round++ {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, _ := strconv.Atoi(t.Name())
			if err := fifo(tid, priority); err != nil && !errors.Is(err, unix.ESRCH) {
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

// prepareThread makes the calling thread the loop's: its priority, and one processor when asked for.
func prepareThread(priority, cpu int) error {
	var missing []error
	if err := fifo(0, priority); err != nil {
		missing = append(missing, fmt.Errorf("real-time priority of the loop: %w", err))
	}
	if cpu >= 0 {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			missing = append(missing, fmt.Errorf("bind the loop to processor %d: %w", cpu, err))
		}
	}
	return errors.Join(missing...)
}

func fifo(tid, priority int) error {
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}, 0)
}
