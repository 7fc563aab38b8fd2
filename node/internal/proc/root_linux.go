package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kapok-dev/kapok/node/internal/rootfs"
	"github.com/kapok-dev/kapok/node/internal/thread"

	"golang.org/x/sys/unix"
)

// A container with a Root begins as this program again, the init: it makes the mounts, enters the
// root directory, gives up its permissions, and executes the program of the container. It reports
// an error to the shim by a pipe, which is closed when the program begins.

const (
	// initVariable is set in the environment of an init, to the directory of its run.
	initVariable = "KAPOK_PROCESS_INIT"
	// ownProgram is the file of this program, on the mount from which the launcher has started it.
	ownProgram = "/proc/self/exe"
	// reportFile is the pipe of an init.
	reportFile = 3
	// longestReport is the maximum length of the error of an init, in bytes.
	longestReport = 4096
)

// namespaces are those of a container with a Root, besides that of users, which is that of its
// shim.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// shimCapabilities are those that a shim has in its namespace of users to make and enter the
// namespaces of its container. overlayfs uses those of files for its own directory, which has no
// permissions.
var shimCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SETPCAP, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID,
}

// capabilityNumbers are the numbers of Capabilities.
var capabilityNumbers = map[string]uintptr{
	"AUDIT_WRITE": unix.CAP_AUDIT_WRITE, "CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID,
	"KILL": unix.CAP_KILL, "MKNOD": unix.CAP_MKNOD, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "NET_RAW": unix.CAP_NET_RAW, "SETFCAP": unix.CAP_SETFCAP,
	"SETGID": unix.CAP_SETGID, "SETPCAP": unix.CAP_SETPCAP, "SETUID": unix.CAP_SETUID, "SYS_CHROOT": unix.CAP_SYS_CHROOT,
}

// ownUsers lets a shim have a namespace of users, with one user and group.
func ownUsers(a *syscall.SysProcAttr, r *Root) error {
	a.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: r.UID, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: r.GID, HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = shimCapabilities
	return nil
}

// spawnRoot starts a container with a Root.
func (s *shim) spawnRoot(files []*os.File, a *syscall.SysProcAttr) (pid int, err error) {
	report, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	a.Cloneflags |= namespaces
	a.AmbientCaps = shimCapabilities
	env := []string{initVariable + "=" + s.dir.Name(), Marker + "=" + s.spec.ID.String()}
	pid, err = s.spawn(ownProgram, []string{"kapok-init"}, "/", env, append(files, w), a)
	w.Close()
	if err != nil {
		return 0, err
	}
	message, err := io.ReadAll(io.LimitReader(report, longestReport))
	if err == nil && len(message) > 0 {
		err = errors.New(string(message))
	}
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		s.children.wait(pid)
		return 0, err
	}
	return pid, nil
}

// runInit is the function main of an init. It does not return if the program of the container
// begins.
func runInit(dir string) int {
	runtime.LockOSThread() // permissions are those of a thread
	syscall.CloseOnExec(reportFile)
	report := os.NewFile(reportFile, "report")
	root, err := os.OpenRoot(dir)
	if err != nil {
		fmt.Fprint(report, err)
		return 1
	}
	var s Spec
	if _, err = readFile(root, "spec.json", &s); err == nil && s.Root == nil {
		err = errors.New("the specification has no root directory")
	}
	root.Close()
	if err == nil {
		err = ownFiles([]*os.File{os.Stdin, os.Stdout, os.Stderr, report})
	}
	if err == nil {
		err = ownKeys()
	}
	if err == nil {
		err = enter(s.Root, dir)
	}
	if err == nil {
		err = s.execute()
	}
	fmt.Fprint(report, err)
	return 1
}

// execute replaces this process, which is in its root directory, by the program of the container.
func (s *Spec) execute() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(s.Dir); err != nil {
		return err
	}
	if s.Root.ReadOnly {
		if err := setReadOnly(unix.AT_FDCWD, "/", 0); err != nil {
			return err
		}
	}
	path := s.Path
	if path == "" {
		var err error
		if path, err = lookPath(s.Args[0], s.Dir, s.Env); err != nil {
			return err
		}
	}
	if err := checkProgram(path); err != nil {
		return err
	}
	if s.Root.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	if err := s.Root.dropCapabilities(); err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: path, Err: syscall.Exec(path, s.Args, s.Env)}
}

// dropCapabilities gives up the permissions of a shim, for this thread and the programs that it
// executes, except for those that root in the container has.
func (r *Root) dropCapabilities() error {
	keep := map[uintptr]bool{}
	for _, name := range Capabilities {
		keep[capabilityNumbers[name]] = !slices.Contains(r.Dropped, name)
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep[c] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // a kernel that is older
			return os.NewSyscallError("prctl", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	// What a program inherits without regard to its file.
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&h, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return os.NewSyscallError("capset", unix.Capset(&h, &data[0]))
}

// enter makes the root directory of a container, with its mounts, and enters it. dir is the
// directory of the run.
func enter(r *Root, dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: "/", Err: err}
	}
	root, err := r.base(dir)
	if err != nil {
		return err
	}
	within, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer within.Close()
	if err := systemMounts(within); err != nil {
		return err
	}
	for i := range r.Mounts {
		if err := r.Mounts[i].bind(within); err != nil {
			return err
		}
	}
	if r.Hostname != "" {
		if err := unix.Sethostname([]byte(r.Hostname)); err != nil {
			return os.NewSyscallError("sethostname", err)
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root directory is stacked on the new one, and unmounted: no path leads to it any more.
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return &os.PathError{Op: "umount", Path: "/", Err: err}
	}
	return os.Chdir("/")
}

// base mounts the root directory of a container, without what is in it, and returns its path.
func (r *Root) base(dir string) (string, error) {
	root, upper, work := filepath.Join(dir, "root"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if r.Lower == "" {
		tmp := filepath.Join(upper, "tmp")
		if err := errors.Join(os.MkdirAll(tmp, 0o777), os.Chmod(tmp, 0o777|fs.ModeSticky)); err != nil {
			return "", err
		}
		if err := unix.Mount(upper, root, "", unix.MS_BIND, ""); err != nil {
			return "", &os.PathError{Op: "mount", Path: root, Err: err}
		}
		return root, nil
	}
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace
	options := "lowerdir=" + escape(r.Lower) + ",upperdir=" + escape(upper) + ",workdir=" + escape(work) + ",userxattr"
	if len(options) >= os.Getpagesize() {
		return "", fmt.Errorf("the directory %s has a path that is too long for overlayfs", dir)
	}
	if err := unix.Mount("overlay", root, "overlay", unix.MS_NODEV, options); err != nil {
		return "", &os.PathError{Op: "mount overlayfs at", Path: root, Err: err}
	}
	return root, nil
}

// The files of /proc that have effects on the machine, or tell of other users, are read-only or
// hidden, as in other runtimes: their owner is root, which the user of a container is on the
// machine if Kapok runs as root.
var (
	readOnlyFiles = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	hiddenFiles   = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats",
	}
)

// guard makes the files of /proc read-only, or hides them.
func guard(root string) error {
	for _, name := range readOnlyFiles {
		path := filepath.Join(root, name)
		err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
		if err == nil {
			err = setReadOnly(unix.AT_FDCWD, path, unix.AT_RECURSIVE)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &os.PathError{Op: "mount read-only", Path: name, Err: err}
		}
	}
	for _, name := range hiddenFiles {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if info.IsDir() {
			err = unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=0")
		} else {
			err = unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return &os.PathError{Op: "hide", Path: name, Err: err}
		}
	}
	return nil
}

// devices are the files of /dev that containers have.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// systemMounts mounts /proc and /dev.
func systemMounts(root *os.Root) error {
	for _, m := range []struct {
		target, kind string
		flags        uintptr
		options      string
	}{
		{"/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"/dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
		{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"},
		{"/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=1777,size=64m"},
		{"/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	} {
		// At the target of a link, /proc would be without its guards.
		name, err := rootfs.Resolve(root, m.target)
		if err == nil && "/"+name != m.target {
			err = fmt.Errorf("mount %s: it is a link in the image", m.target)
		}
		if err == nil {
			err = root.MkdirAll(name, 0o755)
		}
		if err != nil {
			return err
		}
		err = unix.Mount(m.kind, filepath.Join(root.Name(), name), m.kind, m.flags, m.options)
		if m.kind == "mqueue" && errors.Is(err, unix.ENODEV) {
			continue // a kernel without message queues
		}
		if err != nil {
			return &os.PathError{Op: "mount " + m.kind + " at", Path: m.target, Err: err}
		}
	}
	if err := guard(root.Name()); err != nil {
		return err
	}
	for _, name := range devices {
		m := Mount{Source: "/dev/" + name, Target: "/dev/" + name, ReadOnly: true, Optional: true}
		if err := m.bind(root); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := root.Symlink(target, "dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// bind makes a mount, and what it is mounted at. Source and target are opened, so that containers
// that share a volume cannot replace them by links in between.
func (m *Mount) bind(root *os.Root) error {
	if m.Optional {
		info, err := os.Lstat(m.Source)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return m.link(root)
		}
	}
	tree, err := m.open()
	if err != nil {
		return err
	}
	defer tree.Close()
	info, err := tree.Stat()
	if err != nil {
		return err
	}
	target, err := place(root, m.Target, info.IsDir())
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	defer target.Close()
	if m.ReadOnly {
		if err := setReadOnly(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE); err != nil {
			return err
		}
	}
	err = unix.MoveMount(int(tree.Fd()), "", int(target.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return &os.PathError{Op: "mount " + m.Source + " at", Path: m.Target, Err: err}
	}
	return nil
}

// open returns a copy of the mounts at the source, which are not mounted yet.
func (m *Mount) open() (*os.File, error) {
	path := filepath.Join(m.Source, m.Sub)
	source, err := unix.Open(m.Source, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil && m.Sub != "" {
		volume := source
		source, err = unix.Openat2(volume, m.Sub, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		_ = unix.Close(volume)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(source)
	tree, err := unix.OpenTree(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	return os.NewFile(uintptr(tree), path), nil
}

// place makes and opens a file or directory in a root directory, at which something is mounted.
func place(root *os.Root, target string, isDir bool) (*os.File, error) {
	name, err := rootfs.Resolve(root, target)
	if err != nil {
		return nil, err
	}
	if name == "." {
		return nil, errors.New("it is the root directory")
	}
	if isDir {
		err = root.MkdirAll(name, 0o755)
	} else if err = root.MkdirAll(filepath.Dir(name), 0o755); err == nil {
		var f *os.File
		if f, err = root.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			err = f.Close()
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	return root.OpenFile(name, unix.O_PATH, 0)
}

// link makes a link like the one of the machine.
func (m *Mount) link(root *os.Root) error {
	to, err := os.Readlink(m.Source)
	if err != nil {
		return err
	}
	name, err := rootfs.Resolve(root, filepath.Dir(m.Target))
	if err == nil {
		err = root.MkdirAll(name, 0o755)
	}
	if err != nil {
		return err
	}
	if err := root.Symlink(to, filepath.Join(name, filepath.Base(m.Target))); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// setReadOnly makes a mount read-only, with AT_RECURSIVE also those below it.
func setReadOnly(at int, target string, flags uint) error {
	err := unix.MountSetattr(at, target, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return &os.PathError{Op: "mount read-only", Path: target, Err: err}
	}
	return nil
}

// ownFiles lets this thread have descriptors of its own, without those of files and directories of
// the machine, except for those that are given. Some may be of the program that has started Kapok.
// Until a process that the thread starts executes its program, links of the container to
// /proc/self/fd lead to its descriptors: as its working directory or the interpreter of a script,
// they would lead out of the root directory. The runtime of Go keeps the other descriptors, which
// lead nowhere.
func ownFiles(keep []*os.File) error {
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	entries, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || slices.ContainsFunc(keep, func(f *os.File) bool { return int(f.Fd()) == fd }) {
			continue
		}
		var s unix.Stat_t
		if unix.Fstat(fd, &s) != nil {
			continue // that of the list
		}
		if kind := s.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
			continue
		}
		if err := unix.Close(fd); err != nil {
			return os.NewSyscallError("close", err)
		}
	}
	return os.NewSyscallError("close_range", unix.CloseRange(reportFile, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC))
}

// ownKeys gives this thread, and the processes that it starts, a keyring of their own in place of
// that of the session in which Kapok runs, which may have tickets and passwords of the user. A user
// other than root may have 200 keys: containers beyond that keep the keyring.
func ownKeys() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	switch err {
	case unix.ENOSYS, unix.EPERM, unix.EDQUOT: // EPERM is that of a filter, which containers inherit
		return nil
	}
	return os.NewSyscallError("keyctl", err)
}

// join lets this thread, and the processes that it starts, enter the namespaces of a process. The
// thread cannot leave them.
func join(pid int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	var files []*os.File
	defer func() { closeAll(files) }()
	names := []string{"pid", "uts", "ipc", "mnt"}
	for _, name := range names {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	for i, f := range files {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return &os.PathError{Op: "setns", Path: names[i], Err: err}
		}
	}
	return nil
}

// spawnInside starts a command in the namespaces of the container.
func (s *shim) spawnInside(args []string, files []*os.File, a *syscall.SysProcAttr) (pid int, err error) {
	thread.Run(func() {
		if err = ownFiles(files); err != nil {
			return
		}
		if err = ownKeys(); err != nil {
			return
		}
		group, failed := s.joinGroup(a)
		if err = failed; err != nil {
			return
		}
		defer group.Close()
		own, _ := fileAt(ownProgram) // before this thread sees the /proc of the container, in which it does not exist
		if err = join(s.main); err != nil {
			return
		}
		path, notFound := lookPath(args[0], s.spec.Dir, s.spec.Env)
		if notFound != nil {
			err = &NotFoundError{Message: notFound.Error()}
			return
		}
		if err = checkNotOwn(path, own); err != nil {
			return
		}
		if s.spec.Root.NoNewPrivileges {
			if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return
			}
		}
		if err = s.spec.Root.dropCapabilities(); err != nil {
			return
		}
		pid, err = s.children.spawn(path, args, s.spec.Dir, s.spec.Env, files, a)
	})
	return pid, err
}

// joinGroup lets the process that this thread starts next be in the control group of the container.
// In version 2 it has a descriptor of the group until it executes its program, which leads to the
// group alone, and cannot change it: the group is on a read-only mount of its own.
func (s *shim) joinGroup(a *syscall.SysProcAttr) (io.Closer, error) {
	g := s.spec.Group
	if !g.Unified {
		return io.NopCloser(nil), g.Join()
	}
	tree, err := (&Mount{Source: g.Dirs[0]}).open()
	if err != nil {
		return nil, err
	}
	if err := setReadOnly(int(tree.Fd()), "", unix.AT_EMPTY_PATH); err != nil {
		tree.Close()
		return nil, err
	}
	a.UseCgroupFD, a.CgroupFD = true, int(tree.Fd())
	return tree, nil
}

// runProbe is the function main of a process that only enters a root directory.
func runProbe(dir string) int {
	if err := enter(&Root{Lower: filepath.Join(dir, "lower")}, dir); err != nil {
		fmt.Fprint(os.Stderr, err)
		return 1
	}
	return 0
}

// becomeInside runs a process that belongs to a container with a Root, and returns its exit code;
// false if this process is another one.
func becomeInside() (code int, is bool) {
	if dir := os.Getenv(probeVariable); dir != "" {
		return runProbe(dir), true
	}
	if dir := os.Getenv(launcherVariable); dir != "" {
		return runLauncher(dir), true
	}
	if dir := os.Getenv(initVariable); dir != "" {
		return runInit(dir), true
	}
	return 0, false
}

// explain adds to an error of isolation what permits it.
func explain(err error) error {
	err = fmt.Errorf("start a process with a root directory of its own: %w", err)
	if data, _ := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); string(bytes.TrimSpace(data)) == "1" {
		return fmt.Errorf("%w (sysctl kernel.apparmor_restrict_unprivileged_userns is 1)", err)
	}
	return err
}
