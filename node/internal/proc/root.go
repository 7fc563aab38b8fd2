package proc

// A Root is a root directory of a container's own, with namespaces of processes, mounts, host name
// and System V IPC. It is entered by a user namespace, whose only user and group are those of this
// process: the container sees them as UID and GID.
type Root struct {
	// Lower is the directory of an image, which is not changed: what the container writes is in the
	// directory of the run. "": an empty one.
	Lower string
	// Mounts are made in this order, with the directories and files at which they are.
	Mounts []Mount
	// UID and GID are the user and the group of the container.
	UID, GID int
	// Hostname is the name of the machine in the container.
	Hostname string
	// ReadOnly makes the root directory read-only, without what is mounted.
	ReadOnly bool
	// Dropped are names of Capabilities that root in the container does not have.
	Dropped []string
	// NoNewPrivileges keeps programs from getting more permissions, as by the bit setuid.
	NoNewPrivileges bool
}

// A Mount is a file or directory of the machine that a container sees at a path of its root
// directory.
type Mount struct {
	Source, Target string // absolute
	// Sub is the path of a file or directory below Source, which is mounted instead of it. Links
	// that lead out of Source are an error, also those that containers make in the meantime.
	Sub      string
	ReadOnly bool
	// Optional leaves out a Source that does not exist. One that is a link is made as a link.
	Optional bool
}

// Capabilities are those that a container whose user is root has in its namespace of users, which
// are those of other runtimes.
var Capabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID",
	"SYS_CHROOT",
}
