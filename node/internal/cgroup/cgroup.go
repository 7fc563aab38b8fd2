// Package cgroup limits what the processes of containers use, by control groups of Linux: version
// 2, where this process may make groups, or version 1 as root.
//
//	p, err := cgroup.Open("kapok-laptop")              // the parent of all groups
//	g, err := p.Make("pod_container_0", cgroup.Limits{Memory: 64 << 20})
//	err = g.Start(attributes, start)                    // start starts a process, which is in the group from its start
//	killed := g.OOMKills()
//	err = g.Remove()                                    // when its processes have ended
//
// The package starts no goroutine.
package cgroup

// Limits are those of a group. A field that is zero limits nothing.
type Limits struct {
	Memory int64 // in bytes
	CPU    int64 // in thousandths of a processor
	Shares int64 // of processors that others want as well, 1024 for each processor that is requested
	Pids   int64 // the number of processes and threads
}

// A Group is a control group. Its fields are stored with a container, and read by its parent.
type Group struct {
	// Dirs are the directories of the group: one in version 2, one for each controller in
	// version 1.
	Dirs []string `json:",omitempty"`
	// Unified says that the group is one of version 2.
	Unified bool `json:",omitempty"`
}
