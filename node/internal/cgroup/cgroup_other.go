//go:build !linux

package cgroup

import (
	"errors"
	"syscall"
)

// A Parent has the groups of this process.
type Parent struct{}

// Open returns an error: there are no control groups.
func Open(string) (*Parent, error) { return nil, errors.New("this system has no control groups") }

// Missing returns nothing.
func (*Parent) Missing() []string { return nil }

// Make returns an empty group.
func (*Parent) Make(string, Limits) (Group, error) { return Group{}, nil }

// Close does nothing.
func (*Parent) Close() error { return nil }

// Start calls start.
func (Group) Start(a *syscall.SysProcAttr, start func() error) error { return start() }

// Join does nothing.
func (Group) Join() error { return nil }

// OOMKills returns 0.
func (Group) OOMKills() int { return 0 }

// Remove does nothing.
func (Group) Remove() error { return nil }
