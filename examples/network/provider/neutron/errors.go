package neutron

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// A refusal is an error with the message of OpenStack. Unwrap returns the error of gophercloud,
// which also has the request.
type refusal struct {
	status  int
	message string
	err     error
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (%d)", r.message, r.status) }

func (r *refusal) Unwrap() error { return r.err }

// explain returns the message of OpenStack in an error response, which is the same for the same
// cause, whatever the request.
func explain(err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) {
		return err
	}
	r := &refusal{status: answer.Actual, message: http.StatusText(answer.Actual), err: err}
	var body map[string]struct {
		Message string `json:"message"`
	}
	// Neutron says {"NeutronError": {"message": ...}}, Keystone {"error": {"message": ...}}, and
	// proxies any text.
	if json.Unmarshal(answer.Body, &body) == nil {
		for _, e := range body {
			if e.Message != "" {
				r.message = e.Message
			}
		}
	}
	return r
}
