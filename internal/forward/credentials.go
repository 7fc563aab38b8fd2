package forward

import (
	"net/http"
	"strings"
)

// ClearCredentials removes the headers of a client that hold credentials or can name a user:
// another server must get neither.
func ClearCredentials(header http.Header) {
	for name := range header {
		if speaksOfUsers(name) {
			delete(header, name)
		}
	}
	clearProtocolTokens(header)
}

// speaksOfUsers reports whether a header can name the user of a request, or holds credentials. Some
// servers take an underscore for a hyphen.
func speaksOfUsers(header string) bool {
	name := strings.ReplaceAll(strings.ToLower(header), "_", "-")
	switch name {
	case "authorization", "proxy-authorization", "x-remote-user", "x-remote-uid", "x-remote-group":
		return true
	}
	return strings.HasPrefix(name, "x-remote-extra-") || strings.HasPrefix(name, "impersonate-")
}

const (
	protocols = "Sec-Websocket-Protocol"
	// tokenPrefix begins a WebSocket protocol that is a bearer token: browsers cannot send the header
	// Authorization with a WebSocket.
	tokenPrefix = "base64url.bearer.authorization.k8s.io."
)

// clearProtocolTokens removes bearer tokens from the WebSocket protocols.
func clearProtocolTokens(header http.Header) {
	var kept []string
	found := false
	for _, list := range header[protocols] {
		for protocol := range strings.SplitSeq(list, ",") {
			protocol = strings.TrimSpace(protocol)
			if len(protocol) >= len(tokenPrefix) && strings.EqualFold(protocol[:len(tokenPrefix)], tokenPrefix) {
				found = true
			} else if protocol != "" {
				kept = append(kept, protocol)
			}
		}
	}
	switch {
	case !found:
	case len(kept) == 0:
		delete(header, protocols)
	default:
		header[protocols] = []string{strings.Join(kept, ", ")}
	}
}
