package process

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/node/internal/rootfs"

	corev1 "k8s.io/api/core/v1"
)

// systemFiles are the files and directories of the machine that a program of the machine sees in
// its own root directory: what programs that are linked dynamically, TLS and time zones need.
var systemFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/alternatives",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/mime.types",
}

// standardPath is the PATH of a container whose image has none.
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// isolate sets what a container with a root directory of its own runs: an image, or a program of
// the machine if image is nil.
func (p *pods) isolate(s *proc.Spec, env *environment, c *corev1.Container, image *Image, program string, expand func(string) string) error {
	root := &proc.Root{Hostname: hostname(env.pod)}
	if security := c.SecurityContext; security != nil {
		root.ReadOnly = isSet(security.ReadOnlyRootFilesystem)
		root.Dropped = dropped(security.Capabilities)
		root.NoNewPrivileges = security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation
	}
	user := ""
	if image != nil {
		words, err := image.command(c, expand)
		if err != nil {
			return err
		}
		s.Image, s.Reference, s.Args, root.Lower, user = image.ID, image.Reference, words, image.Root, image.User
		if s.Dir == "" {
			s.Dir = image.WorkingDir
		}
	} else {
		s.Path = program
		for _, f := range systemFiles {
			root.Mounts = append(root.Mounts, proc.Mount{Source: f, Target: f, ReadOnly: true, Optional: true})
		}
		if !slices.ContainsFunc(systemFiles, func(dir string) bool { return strings.HasPrefix(program, dir+"/") }) {
			root.Mounts = append(root.Mounts, proc.Mount{Source: program, Target: program, ReadOnly: true})
		}
	}
	if s.Dir == "" {
		s.Dir = "/"
	}
	var err error
	if root.UID, root.GID, err = userOf(root.Lower, user, env.pod, c); err != nil {
		return err
	}
	resolv, err := filepath.EvalSymlinks(systemResolver)
	if p.ownNetwork(env.pod) {
		if _, own := p.runtime.Root().Lstat(resolverFile); own == nil {
			resolv, err = p.path(resolverFile), nil
		}
	}
	if err == nil {
		root.Mounts = append(root.Mounts, proc.Mount{Source: resolv, Target: systemResolver, ReadOnly: true})
	}
	mounts, err := p.mounts(env, c)
	if err != nil {
		return err
	}
	root.Mounts = append(root.Mounts, mounts...)
	s.Root = root
	s.Env = withoutInherited(s.Env)
	if image != nil {
		s.Env = withDefaults(s.Env, image.Env)
	}
	home := "/"
	if root.UID == 0 {
		home = "/root"
	}
	s.Env = append(withDefaults(s.Env, []string{"PATH=" + standardPath, "HOME=" + home}), "KAPOK_ROOT=/")
	return nil
}

// dropped returns the capabilities that a container gives up. Those that are added have no effect
// beyond this, because others would let a container take back what it is guarded by.
func dropped(c *corev1.Capabilities) (all []string) {
	if c == nil {
		return nil
	}
	has := func(list []corev1.Capability, name string) bool {
		return slices.ContainsFunc(list, func(c corev1.Capability) bool {
			text := strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_")
			return text == name || text == "ALL"
		})
	}
	for _, name := range proc.Capabilities {
		if has(c.Drop, name) && !has(c.Add, name) {
			all = append(all, name)
		}
	}
	return all
}

// withoutInherited removes the variables of this process that name files or users of the machine.
func withoutInherited(env []string) []string {
	return slices.DeleteFunc(env, func(e string) bool {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "LANG", "LC_ALL", "TZ":
			return false
		}
		return slices.Contains(inherited, name) && value == os.Getenv(name)
	})
}

// mounts returns the mounts of the volumes of a container, those below others last.
func (p *pods) mounts(env *environment, c *corev1.Container) ([]proc.Mount, error) {
	var all []proc.Mount
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		source, sub, err := p.mountSource(env, m)
		if err != nil {
			return nil, err
		}
		target := filepath.Clean("/" + m.MountPath)
		if target == "/" {
			return nil, missing{fmt.Sprintf("mountPath %q: not supported by process nodes", m.MountPath)}
		}
		all = append(all, proc.Mount{Source: source, Sub: sub, Target: target, ReadOnly: m.ReadOnly || isGenerated(env.pod, m.Name)})
	}
	slices.SortStableFunc(all, func(a, b proc.Mount) int { return strings.Compare(a.Target+"/", b.Target+"/") })
	return all, nil
}

// isGenerated reports whether a volume has files that the node writes, which containers cannot
// change.
func isGenerated(pod *corev1.Pod, volume string) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == volume {
			return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
		}
	}
	return false
}

// lastMounts adds the files of a run: /etc/hosts and the termination message.
func (p *pods) lastMounts(s *proc.Spec, c *corev1.Container) error {
	hosts := proc.Mount{Source: s.Hosts, Target: systemHosts}
	if s.Hosts == "" {
		hosts = proc.Mount{Source: systemHosts, Target: systemHosts, ReadOnly: true}
	}
	s.Root.Mounts = append(s.Root.Mounts, hosts)
	s.Hosts = ""
	message := c.TerminationMessagePath
	if message == "" {
		message = corev1.TerminationMessagePathDefault
	}
	if !filepath.IsAbs(message) {
		return missing{fmt.Sprintf("terminationMessagePath %q is not an absolute path", message)}
	}
	file := p.messageFile(s.ID)
	if err := beneath.Create(p.runtime.Root(), file, nil, 0o666); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	s.Root.Mounts = append(s.Root.Mounts, proc.Mount{Source: p.path(file), Target: message})
	s.Env = append(s.Env, messageVariable+"="+message)
	return nil
}

// userOf returns the user and the group of a container: those of the spec, those of the image, or
// else root. A program of the machine has those of this process. Errors are those of a kubelet.
func userOf(root, ofImage string, pod *corev1.Pod, c *corev1.Container) (uid, gid int, err error) {
	if root == "" {
		uid, gid = os.Geteuid(), os.Getegid()
	}
	name, group, hasGroup := strings.Cut(ofImage, ":")
	numeric := true
	if name != "" {
		if uid, err = strconv.Atoi(name); err != nil {
			numeric = false
			if uid, gid, err = lookUpUser(root, name); err != nil {
				return 0, 0, err
			}
		}
		if hasGroup {
			if gid, err = lookUpGroup(root, group); err != nil {
				return 0, 0, err
			}
		}
	}
	nonRoot := false
	apply := func(user, group *int64, must *bool) {
		if user != nil {
			uid, numeric = int(*user), true
		}
		if group != nil {
			gid = int(*group)
		}
		if must != nil {
			nonRoot = *must
		}
	}
	if s := pod.Spec.SecurityContext; s != nil {
		apply(s.RunAsUser, s.RunAsGroup, s.RunAsNonRoot)
	}
	if s := c.SecurityContext; s != nil {
		apply(s.RunAsUser, s.RunAsGroup, s.RunAsNonRoot)
	}
	id := fmt.Sprintf("(pod: %q, container: %s)", pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", c.Name)
	switch {
	case uid < 0 || gid < 0 || uid > math.MaxInt32 || gid > math.MaxInt32: // the kernel takes the lower 32 bits
		return 0, 0, missing{fmt.Sprintf("user %q of the image must not be negative or larger than %d", ofImage, math.MaxInt32)}
	case nonRoot && !numeric:
		return 0, 0, missing{fmt.Sprintf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", name, id)}
	case nonRoot && uid == 0:
		return 0, 0, missing{"container has runAsNonRoot and image will run as root " + id}
	}
	return uid, gid, nil
}

// longestTable is the maximum length of /etc/passwd of an image, in bytes.
const longestTable = 1 << 20

// lookUpUser finds a user in /etc/passwd of an image.
func lookUpUser(root, name string) (uid, gid int, err error) {
	fields, err := lookUpLine(root, "/etc/passwd", name)
	if err != nil || len(fields) < 4 {
		return 0, 0, missing{fmt.Sprintf("unable to find user %s: no matching entries in passwd file", name)}
	}
	if uid, err = strconv.Atoi(fields[2]); err == nil {
		gid, err = strconv.Atoi(fields[3])
	}
	if err != nil {
		return 0, 0, missing{fmt.Sprintf("user %s in /etc/passwd of the image: %v", name, err)}
	}
	return uid, gid, nil
}

// lookUpGroup finds a group, by its number or in /etc/group of an image.
func lookUpGroup(root, name string) (int, error) {
	if gid, err := strconv.Atoi(name); err == nil {
		return gid, nil
	}
	fields, err := lookUpLine(root, "/etc/group", name)
	if err == nil && len(fields) >= 3 {
		if gid, err := strconv.Atoi(fields[2]); err == nil {
			return gid, nil
		}
	}
	return 0, missing{fmt.Sprintf("unable to find group %s: no matching entries in group file", name)}
}

// lookUpLine returns the fields of the line of a table that begins with a name.
func lookUpLine(dir, table, name string) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	resolved, err := rootfs.Resolve(root, table)
	if err != nil {
		return nil, err
	}
	data, err := beneath.Read(root, resolved, longestTable)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); fields[0] == name {
			return fields, nil
		}
	}
	return nil, errors.Join(lines.Err(), fs.ErrNotExist)
}
