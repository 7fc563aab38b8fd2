package neutron

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// A refusal is an error in OpenStack's own words. Unwrap leads to that of gophercloud, which also tells the request.
type refusal struct {
	status  int
	message string
	err     error
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (%d)", r.message, r.status) }

func (r *refusal) Unwrap() error { return r.err }

// explain finds OpenStack's words in an answer that is an error. They are the same for the same cause, whatever the request.
func explain(err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) {
		return err
	}
	r := &refusal{status: answer.Actual, message: http.StatusText(answer.Actual), err: err}
	var body map[string]struct {
		Message string `json:"message"`
	}
	// Neutron says {"NeutronError": {"message": ...}}, Keystone {"error": {"message": ...}}, and proxies what they like.
	if json.Unmarshal(answer.Body, &body) == nil {
		for _, e := range body {
			if e.Message != "" {
				r.message = e.Message
			}
		}
	}
	return r
}
