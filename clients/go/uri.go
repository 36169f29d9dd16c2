package strait

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// DefaultPort is that of an address that names none.
const DefaultPort = 9090

const (
	scheme = "strait://"
	// maxNameBytes is the longest name that stores take, as in POSIX (NAME_MAX).
	maxNameBytes = 255
)

// A URI names a path in a store behind a gateway: strait://host:port/@store/path.
type URI struct {
	// Host has no brackets.
	Host string
	Port int
	// Store is empty for the gateway's default store.
	Store string
	// Path begins with a slash.
	Path string
}

// ParseURI parses strait://host:port/@store/path. A first component @@name is a directory @name
// of the default store. Nothing is decoded: %, ? and # stand for themselves.
func ParseURI(text string) (URI, error) {
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		if strings.Contains(text, "@") {
			text = "it" // it may hold a password
		}
		return URI{}, wrongURI(text + " doesn't begin with " + scheme)
	}
	authority, path, _ := strings.Cut(rest, "/")
	uri, err := parseAuthority(authority)
	if err != nil {
		return URI{}, err
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(names) != 0 && strings.HasPrefix(names[0], "@") {
		names[0] = names[0][1:]
		if !strings.HasPrefix(names[0], "@") {
			uri.Store = names[0]
			if uri.Store == "" {
				return URI{}, wrongURI(fmt.Sprintf(
					"%q: a store's name follows the @, as in /@lab; a directory called @ is /@@", text))
			}
			if err := checkName(uri.Store, text); err != nil {
				return URI{}, err
			}
			names = names[1:]
		}
	}
	for _, name := range names {
		if err := checkName(name, text); err != nil {
			return URI{}, err
		}
	}
	uri.Path = "/" + strings.Join(names, "/")
	return uri, nil
}

// Gateway is the address of the gateway and its store, without the path.
func (u URI) Gateway() string {
	store := ""
	if u.Store != "" {
		store = "@" + u.Store
	}
	return scheme + u.hostPort() + "/" + store
}

func (u URI) hostPort() string { return net.JoinHostPort(u.Host, strconv.Itoa(u.Port)) }

func wrongURI(why string) error {
	return newError(InvalidArgument, "not the address of a gateway, strait://host:port/@store: "+why, "")
}

func parseAuthority(authority string) (URI, error) {
	if strings.Contains(authority, "@") {
		// The message doesn't repeat it: it may hold a password.
		return URI{}, newError(InvalidArgument, "an address names no user; log in with the options", "")
	}
	var uri URI
	var port string
	isHost := true
	if inner, ok := strings.CutPrefix(authority, "["); ok { // [::1]:9090
		uri.Host, port, isHost = strings.Cut(inner, "]")
	} else {
		colon := strings.IndexByte(authority, ':')
		if colon < 0 {
			colon = len(authority)
		}
		uri.Host, port = authority[:colon], authority[colon:]
		isHost = !strings.ContainsAny(uri.Host, " \t\r\n?#[]")
	}
	digits, hasPort := strings.CutPrefix(port, ":")
	if !isHost || uri.Host == "" || port != "" && !hasPort {
		return URI{}, wrongURI("'" + authority + "' is no HOST:PORT")
	}
	uri.Port = DefaultPort
	if digits != "" {
		number, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || number == 0 || len(digits) > 5 {
			return URI{}, wrongURI(authority + " has a port that isn't one of 1 to 65535")
		}
		uri.Port = int(number)
	}
	return uri, nil
}

func checkName(name, text string) error {
	if name == "." || name == ".." || len(name) > maxNameBytes ||
		strings.ContainsRune(name, 0) {
		return wrongURI(fmt.Sprintf("%q has a name that is . or .., holds a NUL byte, or is "+
			"longer than %d bytes", text, maxNameBytes))
	}
	return nil
}
