package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/beneath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// refreshVolumes is the time after which the contents of volumes are compared with their objects,
	// and tokens with their expiry.
	refreshVolumes = 10 * time.Second
	defaultMode    = 0o644
)

// volumes sets up the volumes of a pod, or updates them. They are directories below that of the
// pod.
func (p *pods) volumes(ctx context.Context, env *environment) error {
	if env.pod.DeletionTimestamp != nil {
		return nil
	}
	var all []error
	for i := range env.pod.Spec.Volumes {
		v := &env.pod.Spec.Volumes[i]
		if err := p.volume(ctx, env, v); err != nil {
			all = append(all, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err))
		}
	}
	return errors.Join(all...)
}

// volumeDir returns the directory of a volume.
func (p *pods) volumeDir(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path, nil
	case v.PersistentVolumeClaim != nil:
		return p.claim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return p.claim(ctx, pod.Namespace, pod.Name+"-"+v.Name)
	}
	return p.path(p.ownVolume(pod, v.Name)), nil
}

// ownVolume returns the directory of a volume whose files are those of the pod, below the directory
// of the node.
func (p *pods) ownVolume(pod *corev1.Pod, name string) string {
	return filepath.Join(p.podDir(string(pod.UID)), "volumes", name)
}

// claim returns the directory of a claim of a volume of this machine.
func (p *pods) claim(ctx context.Context, namespace, name string) (string, error) {
	var claim corev1.PersistentVolumeClaim
	if err := p.client.Get(ctx, client.Key(namespace, name), &claim); err != nil {
		return "", absent(err, "persistentvolumeclaim", name)
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return "", missing{"PVC is not bound"}
	}
	var volume corev1.PersistentVolume
	if err := p.client.Get(ctx, client.Key("", claim.Spec.VolumeName), &volume); err != nil {
		return "", absent(err, "persistentvolume", claim.Spec.VolumeName)
	}
	switch {
	case volume.Spec.HostPath != nil:
		return volume.Spec.HostPath.Path, nil
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path, nil
	}
	return "", missing{fmt.Sprintf("persistent volume %s is neither hostPath nor local", volume.Name)}
}

// volume sets up a volume.
func (p *pods) volume(ctx context.Context, env *environment, v *corev1.Volume) error {
	files := payload{}
	var err error
	switch {
	case v.EmptyDir != nil:
	case v.HostPath != nil:
		return hostPath(v.HostPath)
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		dir, err := p.volumeDir(ctx, env.pod, v)
		if err != nil {
			return err
		}
		return os.MkdirAll(dir, 0o700)
	case v.ConfigMap != nil:
		err = p.objects(ctx, env, "configmap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional, files)
	case v.Secret != nil:
		err = p.objects(ctx, env, "secret", v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional, files)
	case v.DownwardAPI != nil:
		err = downward(env, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode, files)
	case v.Projected != nil:
		err = p.projected(ctx, env, v, files)
	default:
		return missing{"volumes of this type are not supported by process nodes"}
	}
	if err != nil {
		return err
	}
	dir, err := beneath.MakeDir(p.runtime.Root(), p.ownVolume(env.pod, v.Name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if v.EmptyDir != nil {
		return nil
	}
	return files.write(dir)
}

func hostPath(h *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if h.Type != nil {
		kind = *h.Type
	}
	info, err := os.Stat(h.Path)
	switch kind {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(h.Path, 0o755)
	case corev1.HostPathFileOrCreate:
		if errors.Is(err, fs.ErrNotExist) {
			f, err := os.OpenFile(h.Path, os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return err
	}
	if err != nil {
		return err
	}
	if kind == corev1.HostPathDirectory != info.IsDir() {
		return missing{fmt.Sprintf("hostPath type check failed: %s is not a %s", h.Path, strings.ToLower(string(kind)))}
	}
	return nil
}

// A payload has the files of a volume by their paths.
type payload map[string]file

type file struct {
	data []byte
	mode fs.FileMode
}

func (f payload) add(path string, data []byte, mode, standard *int32) error {
	if !filepath.IsLocal(path) || strings.HasPrefix(path, "..") {
		return missing{fmt.Sprintf("path %q: must be relative, and must not begin with ..", path)}
	}
	perm := fs.FileMode(defaultMode)
	for _, m := range []*int32{standard, mode} {
		if m != nil {
			perm = fs.FileMode(*m) & fs.ModePerm
		}
	}
	f[filepath.Clean(path)] = file{data, perm}
	return nil
}

// objects adds the keys of a ConfigMap or Secret.
func (p *pods) objects(ctx context.Context, env *environment, kind, name string, items []corev1.KeyToPath, mode *int32, optional *bool, to payload) error {
	data := map[string][]byte{}
	key := client.Key(env.pod.Namespace, name)
	var err error
	if kind == "secret" {
		var s corev1.Secret
		err = p.client.Get(ctx, key, &s)
		data = s.Data
	} else {
		var m corev1.ConfigMap
		err = p.client.Get(ctx, key, &m)
		for k, v := range m.Data {
			data[k] = []byte(v)
		}
		for k, v := range m.BinaryData {
			data[k] = v
		}
	}
	if err != nil {
		if client.IgnoreNotFound(err) == nil && isSet(optional) {
			return nil
		}
		return absent(err, kind, name)
	}
	if len(items) == 0 {
		for k, v := range data {
			if err := to.add(k, v, nil, mode); err != nil {
				return err
			}
		}
	}
	for _, item := range items {
		v, has := data[item.Key]
		if !has {
			if isSet(optional) {
				continue
			}
			return missing{"references non-existent " + strings.TrimSuffix(kind, "map") + " key: " + item.Key}
		}
		if err := to.add(item.Path, v, item.Mode, mode); err != nil {
			return err
		}
	}
	return nil
}

// downward adds fields of the pod.
func downward(env *environment, items []corev1.DownwardAPIVolumeFile, mode *int32, to payload) error {
	for i := range items {
		item := &items[i]
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = env.field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			c := containerOf(env.pod, item.ResourceFieldRef.ContainerName)
			if c == nil {
				return missing{fmt.Sprintf("container %s not found", item.ResourceFieldRef.ContainerName)}
			}
			text, err = env.resource(c, item.ResourceFieldRef)
		}
		if err == nil {
			err = to.add(item.Path, []byte(text), item.Mode, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// projected adds the sources of a projected volume.
func (p *pods) projected(ctx context.Context, env *environment, v *corev1.Volume, to payload) error {
	mode := v.Projected.DefaultMode
	for i := range v.Projected.Sources {
		var err error
		switch s := &v.Projected.Sources[i]; {
		case s.ConfigMap != nil:
			err = p.objects(ctx, env, "configmap", s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional, to)
		case s.Secret != nil:
			err = p.objects(ctx, env, "secret", s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional, to)
		case s.DownwardAPI != nil:
			err = downward(env, s.DownwardAPI.Items, mode, to)
		case s.ServiceAccountToken != nil:
			var token string
			if token, err = p.token(ctx, env.pod, v.Name, i, s.ServiceAccountToken); err == nil {
				err = to.add(s.ServiceAccountToken.Path, []byte(token), new(int32(0o600)), nil)
			}
		default:
			err = missing{"a source of the projected volume is not supported by process nodes"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A token is one of a service account for a pod.
type token struct {
	text           string
	issued, expiry time.Time
}

type tokenKey struct {
	pod, volume string
	source      int
}

// token returns a token for a pod, which is renewed when four fifths of its time are over, or a
// day. One that cannot be renewed is used until it expires.
func (p *pods) token(ctx context.Context, pod *corev1.Pod, volume string, source int, s *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{string(pod.UID), volume, source}
	p.mu.Lock()
	t, known := p.tokens[key]
	p.mu.Unlock()
	if age := time.Since(t.issued); known && age < t.expiry.Sub(t.issued)*4/5 && age < 24*time.Hour {
		return t.text, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if s.Audience != "" {
		request.Spec.Audiences = []string{s.Audience}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := p.client.SubResource("token").Create(ctx, account, request); err != nil {
		if known && time.Now().Before(t.expiry) {
			return t.text, nil
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	t = token{request.Status.Token, time.Now(), request.Status.ExpirationTimestamp.Time}
	p.mu.Lock()
	p.tokens[key] = t
	p.mu.Unlock()
	return t.text, nil
}

// The files of a volume are in a directory with a name of its own, to which the link ..data points.
// A link for each first part of a path points there through ..data, so that all files change at
// once.
const dataLink = "..data"

// write replaces the files of a volume, if they differ. Whatever a container has put in their place
// is replaced, and not followed.
func (f payload) write(dir *os.Root) error {
	current, _ := dir.Readlink(dataLink)
	if f.equal(dir, current) {
		return nil
	}
	next := ".." + rand.Text()
	if err := dir.Mkdir(next, 0o700); err != nil {
		return err
	}
	tops := map[string]bool{}
	for path, content := range f {
		name := filepath.Join(next, path)
		parent, err := beneath.MakeDir(dir, filepath.Dir(name))
		if err == nil {
			parent.Close()
			err = beneath.Create(dir, name, content.data, content.mode)
		}
		if err != nil {
			return errors.Join(err, beneath.RemoveAll(dir, next))
		}
		tops[strings.Split(path, string(filepath.Separator))[0]] = true
	}
	const temporary = "..data_tmp"
	_ = dir.RemoveAll(temporary) // of a crash
	if info, err := dir.Lstat(dataLink); err == nil && info.IsDir() {
		_ = beneath.RemoveAll(dir, dataLink) // else a link cannot replace it
	}
	if err := errors.Join(dir.Symlink(next, temporary), dir.Rename(temporary, dataLink)); err != nil {
		return errors.Join(err, beneath.RemoveAll(dir, next))
	}
	for top := range tops {
		err := dir.Symlink(filepath.Join(dataLink, top), top)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return cleanUp(dir, next, tops)
}

// cleanUp removes the files and links that are of no use after a change.
func cleanUp(dir *os.Root, current string, tops map[string]bool) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		old := strings.HasPrefix(name, "..") && e.IsDir() && name != current
		if e.Type()&fs.ModeSymlink != 0 && name != dataLink && !tops[name] {
			to, _ := dir.Readlink(name)
			old = strings.HasPrefix(to, dataLink+string(filepath.Separator))
		}
		if old {
			if err := beneath.RemoveAll(dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// equal reports whether the directory to which the link points has these files, and no others.
func (f payload) equal(dir *os.Root, current string) bool {
	if !strings.HasPrefix(current, "..") || strings.Contains(current, string(filepath.Separator)) || current == ".." {
		return false
	}
	root, err := beneath.Dir(dir, current)
	if err != nil {
		return false
	}
	defer root.Close()
	count := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, has := f[filepath.FromSlash(name)]
		if !has {
			return fs.ErrInvalid
		}
		data, err := beneath.Read(root, name, int64(len(content.data)))
		if err != nil || !slices.Equal(data, content.data) {
			return errors.Join(err, fs.ErrInvalid)
		}
		count++
		return nil
	})
	return err == nil && count == len(f)
}

// root makes the directory of a container with links to its volumes at their mount paths, and
// returns it.
func (p *pods) root(env *environment, c *corev1.Container) (string, error) {
	root := filepath.Join(p.podDir(string(env.pod.UID)), "root", c.Name)
	mounts := slices.Clone(c.VolumeMounts)
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int { return strings.Compare(a.MountPath, b.MountPath) })
	dir, err := beneath.MakeDir(p.runtime.Root(), root)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	for i := range mounts {
		m := &mounts[i]
		for _, other := range mounts[:i] {
			if strings.HasPrefix(filepath.Clean(m.MountPath), filepath.Clean(other.MountPath)+"/") {
				return "", missing{fmt.Sprintf("mountPath %q is below %q: not supported by process nodes", m.MountPath, other.MountPath)}
			}
		}
		volume, sub, err := p.mountSource(env, m)
		if err != nil {
			return "", err
		}
		path := strings.TrimPrefix(filepath.Clean("/"+m.MountPath), "/")
		if path == "" {
			return "", missing{fmt.Sprintf("mountPath %q: not supported by process nodes", m.MountPath)}
		}
		if err := link(dir, path, filepath.Join(volume, sub)); err != nil {
			return "", err
		}
	}
	return root, nil
}

// link makes a link, in place of any other one.
func link(in *os.Root, path, target string) error {
	dir, err := beneath.MakeDir(in, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	if is, _ := dir.Readlink(name); is == target {
		return nil
	}
	_ = dir.Remove(name)
	return dir.Symlink(target, name)
}

// mountSource returns the path of the volume that is mounted, and the path below it of the part
// that is; "" if it is all of it.
func (p *pods) mountSource(env *environment, m *corev1.VolumeMount) (volume, sub string, err error) {
	i := slices.IndexFunc(env.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 {
		return "", "", missing{fmt.Sprintf("volume %q not found", m.Name)}
	}
	v := &env.pod.Spec.Volumes[i]
	dir, err := p.volumeDir(env.ctx, env.pod, v)
	if err != nil || m.SubPath == "" {
		return dir, "", err
	}
	if !filepath.IsLocal(m.SubPath) {
		return "", "", missing{fmt.Sprintf("subPath %q: must be a path below the volume", m.SubPath)}
	}
	var within *os.Root
	if v.HostPath == nil && v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
		within, err = beneath.Dir(p.runtime.Root(), p.ownVolume(env.pod, v.Name))
	} else {
		within, err = os.OpenRoot(dir)
	}
	if err != nil {
		return "", "", missing{fmt.Sprintf("subPath %q: %v", m.SubPath, err)}
	}
	defer within.Close()
	if _, err := within.Stat(m.SubPath); errors.Is(err, fs.ErrNotExist) {
		err = within.MkdirAll(m.SubPath, 0o700)
		if err != nil {
			return "", "", err
		}
	} else if err != nil {
		return "", "", missing{fmt.Sprintf("subPath %q: %v", m.SubPath, err)}
	}
	return dir, m.SubPath, nil
}
