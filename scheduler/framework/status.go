package framework

import (
	"errors"
	"strings"
)

// A Code is the kind of a Status.
type Code int

const (
	// Success is the code of a nil Status.
	Success Code = iota
	// Error fails the attempt. The pod is retried after its backoff.
	Error
	// Unschedulable rejects a node, or the pod. Preemption may help.
	Unschedulable
	// UnschedulableAndUnresolvable rejects a node, or the pod. Preemption does not help.
	UnschedulableAndUnresolvable
	// Wait delays the binding of a pod. It is a result of Permit.
	Wait
	// Skip means that the plugin has nothing to do for the pod. It is a result of PreFilter, PreScore
	// and Bind.
	Skip
)

var codes = []string{"Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip"}

// String returns the name of the code.
func (c Code) String() string {
	if c < 0 || int(c) >= len(codes) {
		return "invalid code"
	}
	return codes[c]
}

// A Status is the result of a method of a plugin. Nil is success. It does not change.
type Status struct {
	code    Code
	reasons []string
	err     error
}

// NewStatus returns a status. Reasons are part of the condition of the pod: those of Filter are
// counted over all nodes, so they should not name the node.
func NewStatus(code Code, reasons ...string) *Status { return &Status{code: code, reasons: reasons} }

// AsStatus returns a status with the code Error, or nil for no error.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{code: Error, err: err}
}

// Code returns the code.
func (s *Status) Code() Code {
	if s == nil {
		return Success
	}
	return s.code
}

// Reasons returns the reasons, with the error first. The caller must not change them.
func (s *Status) Reasons() []string {
	switch {
	case s == nil:
		return nil
	case s.err != nil:
		return append([]string{s.err.Error()}, s.reasons...)
	}
	return s.reasons
}

// Message returns the reasons in one line.
func (s *Status) Message() string { return strings.Join(s.Reasons(), ", ") }

// IsSuccess reports whether the code is Success.
func (s *Status) IsSuccess() bool { return s.Code() == Success }

// IsRejected reports whether the code is Unschedulable or UnschedulableAndUnresolvable.
func (s *Status) IsRejected() bool {
	return s.Code() == Unschedulable || s.Code() == UnschedulableAndUnresolvable
}

// AsError returns the status as an error; nil for a success.
func (s *Status) AsError() error {
	switch {
	case s.IsSuccess():
		return nil
	case s.err != nil:
		return s.err
	case len(s.reasons) == 0:
		return errors.New(s.code.String())
	}
	return errors.New(s.Message())
}
