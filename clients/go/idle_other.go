//go:build !unix

package strait

import "net"

// isReadable can't be told here without waiting; a retry handles a connection that has ended.
func isReadable(net.Conn) bool { return false }
