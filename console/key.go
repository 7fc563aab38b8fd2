package console

import (
	"net/http"
	"strings"
)

const protocols = "Sec-Websocket-Protocol"

// takeKey returns the key of the session, and removes it from the request, so that API does not see
// it.
func takeKey(r *http.Request) string {
	key := r.Header.Get(Header)
	r.Header.Del(Header)
	if !isWebSocket(r) {
		return key
	}
	var others []string
	for _, list := range r.Header[protocols] {
		for protocol := range strings.SplitSeq(list, ",") {
			protocol = strings.TrimSpace(protocol)
			given, found := strings.CutPrefix(protocol, Protocol)
			switch {
			case !found:
				others = append(others, protocol)
			case key == "":
				key = given
			}
		}
	}
	r.Header.Del(protocols)
	if len(others) > 0 {
		r.Header.Set(protocols, strings.Join(others, ", "))
	}
	return key
}

// isWebSocket reports whether a request asks for a WebSocket.
func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
