package video

import "syscall"

// widen asks for a pipe of 1 MiB instead of 64 KiB: a picture then goes over in one piece, without a change of process for each part.
// Where the system refuses, the pipe stays as it is.
func widen(pipe any) {
	const setPipeSize = 1031 // F_SETPIPE_SZ of fcntl(2)
	c, ok := pipe.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 1<<20) })
}
