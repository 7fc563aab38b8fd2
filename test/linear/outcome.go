package linear

import (
	"errors"
	"net"
	"net/http"
)

// outcomeOf returns the outcome of an operation from its response, or the lack of one. ok is false
// if no server may ever respond so.
func outcomeOf(name string, status int, answer *wire, err error) (_ Outcome, proper bool) {
	if err != nil {
		if dial := (*net.OpError)(nil); errors.Is(err, errDown) || errors.As(err, &dial) && dial.Op == "dial" {
			return Refused, true // it was not sent
		}
		return Unknown, true
	}
	switch status {
	case http.StatusOK, http.StatusCreated:
		return Done, true
	case http.StatusNotFound:
		// Any other 404 means that the resource does not exist, which it does.
		return NotFound, answer.Reason == "NotFound" && answer.Details.Name == name
	case http.StatusConflict:
		if answer.Reason == "AlreadyExists" {
			return Exists, true
		}
		return Conflict, answer.Reason == "Conflict"
	case http.StatusGone, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return Refused, true
	case http.StatusGatewayTimeout:
		return Unknown, true
	}
	return Unknown, false
}
