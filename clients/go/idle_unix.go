//go:build unix

package strait

import (
	"net"
	"syscall"
)

// isReadable says whether a connection has bytes to read, or has ended, without waiting.
func isReadable(conn net.Conn) bool {
	inner, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return true
	}
	readable := true
	var one [1]byte
	err = raw.Control(func(descriptor uintptr) {
		_, _, failure := syscall.Recvfrom(int(descriptor), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		readable = failure != syscall.EAGAIN
	})
	return err != nil || readable
}
