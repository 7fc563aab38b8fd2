//go:build linux

package kubelet

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A node is a process of this test in namespaces of its own, with containerd and a kubelet below
// it.
type node struct {
	name    string
	process *exec.Cmd
	log     string // of kubelet and containerd
}

// The environment of a node's process.
const (
	nodeNumber = "KAPOK_KUBELET_NODE"     // its number, which is the last byte of its address less 10
	nodeFiles  = "KAPOK_KUBELET_FILES"    // its directory
	nodeBinary = "KAPOK_KUBELET_PROGRAMS" // where containerd and kubelet are
)

// startNode starts a node that runs the script. Its kubelet joins by that.
func startNode(t *testing.T, number int, programs, script, image string) *node {
	t.Helper()
	n := &node{name: fmt.Sprint("node", number)}
	dir := t.TempDir()
	for name, text := range map[string]string{"join.sh": script, "containerd.toml": containerdConfig, "cni.conflist": fmt.Sprintf(networkConfig, number), "kubelet.conf": fmt.Sprintf(kubeletConfig, number)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "cp", image, filepath.Join(dir, "image.tar"))
	n.log = filepath.Join(dir, "log")
	log, err := os.Create(n.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(n.log)
			t.Logf("the log of %s ends:\n%s", n.name, text[max(0, len(text)-20000):])
		}
		for _, hierarchy := range hierarchies() {
			removeGroups(filepath.Join(hierarchy, cgroup(number)))
		}
	})
	for _, hierarchy := range hierarchies() {
		if err := makeGroup(filepath.Join(hierarchy, cgroup(number))); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n.process = exec.Command(binary)
	n.process.Env = append(os.Environ(), fmt.Sprint(nodeNumber, "=", number), nodeFiles+"="+dir, nodeBinary+"="+programs, role+"=node")
	n.process.Stdout, n.process.Stderr = log, log
	n.process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL}
	in, err := n.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	link := fmt.Sprint("veth", number)
	run(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(n.process.Process.Pid))
	run(t, "ip", "link", "set", link, "master", "br0", "up")
	run(t, "ip", "route", "replace", fmt.Sprintf("10.88.%d.0/24", number), "via", address(number))
	fmt.Fprintln(in, "connected")
	return n
}

// kill ends all processes of the node at once, as a power failure does: their namespace ends with
// its first process.
func (n *node) kill() {
	_ = n.process.Process.Kill()
	_ = n.process.Wait()
}

// address returns the address of a node.
func address(number int) string { return fmt.Sprint("192.168.77.", 10+number) }

// cgroup returns the control group of a node.
func cgroup(number int) string { return fmt.Sprint("kapok-test-node", number) }

// runNode is the first process of a node.
func runNode() error {
	number, files, programs := os.Getenv(nodeNumber), os.Getenv(nodeFiles), os.Getenv(nodeBinary)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil {
		return err
	}
	if err := syscall.Sethostname(fmt.Append(nil, "node", n)); err != nil {
		return err
	}
	commands := []string{
		"mount --make-rprivate /",
		"mount -t proc proc /proc",
		"ip link set lo up",
		"ip addr add " + address(n) + "/24 dev eth0",
		"ip link set eth0 up",
		"ip route add default via " + serverAddress,
		"sysctl -qw net.ipv4.ip_forward=1",
	}
	for _, dir := range []string{"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/var/log/pods", "/var/log/containers", "/etc/cni/net.d", "/var/lib/cni", "/opt/cni"} {
		own := filepath.Join(files, "root", dir)
		commands = append(commands, "mkdir -p "+own+" "+dir, "mount --bind "+own+" "+dir, "mount --make-rshared "+dir)
	}
	commands = append(commands,
		"cp "+files+"/cni.conflist /etc/cni/net.d/10-kapok.conflist",
		"mkdir -p "+files+"/kubelet.conf.d "+files+"/bin",
		"mv "+files+"/kubelet.conf "+files+"/kubelet.conf.d/10-test.conf",
	)
	// The script calls it without flags of the test.
	kubeletScript := fmt.Sprintf("#!/bin/sh\nexec %s/kubelet \"$@\" --config-dir %s/kubelet.conf.d --hostname-override node%s\n", programs, files, number)
	for _, c := range commands {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", c, err, out)
		}
	}
	if err := os.WriteFile(files+"/bin/kubelet", []byte(kubeletScript), 0o755); err != nil {
		return err
	}
	start := func(name string, args ...string) (*exec.Cmd, error) {
		c := exec.Command(name, args...)
		c.Env = append(os.Environ(), "PATH="+files+"/bin:"+programs+":"+os.Getenv("PATH"))
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		return c, c.Start()
	}
	if _, err := start(filepath.Join(programs, "containerd"), "--config", files+"/containerd.toml", "--log-level", "warn"); err != nil {
		return err
	}
	for {
		if out, err := exec.Command(filepath.Join(programs, "ctr"), "--namespace", "k8s.io", "images", "import", files+"/image.tar").CombinedOutput(); err == nil {
			break
		} else if !strings.Contains(string(out), "containerd.sock") && !strings.Contains(string(out), "connection refused") {
			return fmt.Errorf("import the image: %w\n%s", err, out)
		}
		time.Sleep(100 * time.Millisecond) // until containerd listens
	}
	kubelet, err := start("sh", files+"/join.sh")
	if err != nil {
		return err
	}
	return kubelet.Wait()
}

// hierarchies returns the directories of control groups: one in version 2, and one for each
// controller in version 1.
func hierarchies() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}
	}
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*")
	return dirs
}

// makeGroup makes a control group. One for processors has those of its parent.
func makeGroup(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), file))
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(path, file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeGroups removes a control group and all below it.
func removeGroups(path string) {
	var dirs []string
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, p)
		}
		return nil
	})
	for i := range dirs {
		_ = os.Remove(dirs[len(dirs)-1-i]) // the deepest first
	}
}

// networkConfig is a format for the number of a node.
const networkConfig = `{
  "cniVersion": "1.0.0", "name": "kapok",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.%d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '` + imageName + `'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/usr/lib/cni', '/opt/cni/bin']
conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
`

// kubeletConfig is what a machine of the test needs beside what the script sets.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /kapok-test-node%d
failCgroupV1: false
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
resolvConf: ""
clusterDNS: [` + serverAddress + `]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
`
