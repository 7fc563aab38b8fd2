package process

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// messageVariable is the variable with the path of the termination message.
	messageVariable = "KAPOK_TERMINATION_LOG"
	// accountPath is the mount path of the token of a service account.
	accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// podDir returns the directory for the files of a pod, besides those of package proc. Like those of
// all functions here, the path is below the directory of the node, as package beneath takes it:
// containers can replace these files by links.
func (p *pods) podDir(pod string) string { return p.runtime.PodDir(pod) }

// path returns the absolute path for containers.
func (p *pods) path(name string) string { return filepath.Join(p.options.Dir, name) }

// messageFile returns the path of the termination message of a run.
func (p *pods) messageFile(id proc.ID) string {
	return filepath.Join(p.podDir(id.Pod), fmt.Sprintf("message-%s-%d", id.Container, id.Attempt))
}

// kubeconfig writes a kubeconfig with the service account of a container, and returns its path; ""
// if the container has no token, or the API server no address. Clients in a pod read the token at a
// fixed path, at which it cannot be here.
func (p *pods) kubeconfig(env *environment, c *corev1.Container, root string) (string, error) {
	mounted := false
	for _, m := range c.VolumeMounts {
		mounted = mounted || filepath.Clean(m.MountPath) == accountPath
	}
	if !mounted || env.server == "" {
		return "", nil
	}
	dir := p.path(filepath.Join(root, accountPath))
	config := clientcmdapi.NewConfig()
	config.Clusters["kapok"] = &clientcmdapi.Cluster{Server: "https://" + env.server, CertificateAuthority: filepath.Join(dir, "ca.crt")}
	config.AuthInfos["pod"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(dir, "token")}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "kapok", AuthInfo: "pod", Namespace: env.pod.Namespace}
	config.CurrentContext = "pod"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	file := root + ".kubeconfig"
	if is, _ := beneath.Read(p.runtime.Root(), file, int64(len(data))); bytes.Equal(is, data) {
		return p.path(file), nil
	}
	return p.path(file), beneath.Replace(p.runtime.Root(), file, data, false)
}
