package main

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/scheduler/config"

	"github.com/spf13/pflag"
)

// schedule is the part of the command line about the scheduler.
type schedule struct {
	on     bool
	off    bool // --scheduler=false
	config string
}

func schedulerFlags(f *pflag.FlagSet, s *schedule) {
	f.BoolVar(&s.on, "scheduler", false, "run the scheduler, which binds pods to nodes (default with --nodes, --node and --scheduler-config)")
	f.StringVar(&s.config, "scheduler-config", "", "file with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) for the scheduler")
}

// complete returns the scheduler, nil if none runs. nodes reports whether there are nodes in this
// process.
func (s *schedule) complete(nodes bool) (*scheduler.Options, error) {
	switch {
	case s.config != "" && s.off:
		return nil, errors.New("--scheduler-config has no effect because of --scheduler=false")
	case s.off, !s.on && !nodes && s.config == "":
		return nil, nil
	case s.config == "":
		return &scheduler.Options{}, nil
	}
	read, err := config.Read(s.config)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-config: %w", err)
	}
	if _, err := config.Compile(read); err != nil {
		return nil, fmt.Errorf("--scheduler-config: %s: %w", s.config, err)
	}
	return &scheduler.Options{Configuration: read}, nil
}
