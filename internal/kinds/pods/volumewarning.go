package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// volumes warns of volumes whose type is deprecated or has no effect, and of files at the same
// path.
func (w *podWarner) volumes() {
	for i, v := range w.spec.Volumes {
		at := w.at("spec", "volumes").Index(i)
		for _, s := range []struct {
			name    string
			set     bool
			message string
		}{
			{"photonPersistentDisk", v.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
			{"gitRepo", v.GitRepo != nil, "deprecated in v1.11, and disabled by default in v1.33+"},
			{"scaleIO", v.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
			{"flocker", v.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"storageOS", v.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"quobyte", v.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"glusterfs", v.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
			{"cephfs", v.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
			{"rbd", v.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if s.set {
				w.warn(at.Child(s.name), "%s", s.message)
			}
		}
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		r, path := v.Ephemeral.VolumeClaimTemplate.Spec.Resources, at.Child("ephemeral", "volumeClaimTemplate", "spec", "resources")
		for name, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
			if value, ok := list[corev1.ResourceStorage]; ok && value.MilliValue()%1000 != 0 {
				w.warn(path.Child(name).Key(string(corev1.ResourceStorage)), "fractional byte value %q is invalid, must be an integer", value.String())
			}
		}
	}
	for i := range w.spec.Volumes {
		w.overlaps(&w.spec.Volumes[i])
	}
}

// filePath is the path of a file in a volume and, for projected volumes, the source that it comes
// from.
type filePath struct{ path, source string }

// String returns the path, and in parentheses the source if there is one.
func (p filePath) String() string {
	if p.source != "" {
		return fmt.Sprintf("%q (%s)", p.path, p.source)
	}
	return fmt.Sprintf("%q", p.path)
}

// overlaps warns of files in a volume whose path is taken by another file or directory.
func (w *podWarner) overlaps(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		w.overlapping(v.Name, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), itemPaths(v.ConfigMap.Items, ""))
	case v.Secret != nil:
		w.overlapping(v.Name, fmt.Sprintf("Secret %q", v.Secret.SecretName), itemPaths(v.Secret.Items, ""))
	case v.DownwardAPI != nil:
		w.overlapping(v.Name, "DownwardAPI", downwardPaths(v.DownwardAPI.Items, ""))
	case v.Projected != nil:
		var paths []filePath
		for _, s := range v.Projected.Sources {
			if s == (corev1.VolumeProjection{}) {
				w.all = append(w.all, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			paths = append(paths, projectedPaths(&s)...)
		}
		w.overlapping(v.Name, "Projected", paths)
	}
}

func (w *podWarner) overlapping(volume, what string, paths []filePath) {
	for i, p := range paths {
		paths[i].path = strings.TrimRight(p.path, "/")
		p = paths[i]
		for _, other := range paths[:i] {
			if p.path == "" || other.path == "" {
				continue
			}
			if strings.HasPrefix(other.path+"/", p.path+"/") || strings.HasPrefix(p.path+"/", other.path+"/") {
				w.all = append(w.all, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", volume, what, p, other))
			}
		}
	}
}

func itemPaths(items []corev1.KeyToPath, source string) []filePath {
	var paths []filePath
	for _, item := range items {
		paths = append(paths, filePath{item.Path, source})
	}
	return paths
}

func downwardPaths(items []corev1.DownwardAPIVolumeFile, source string) []filePath {
	var paths []filePath
	for _, item := range items {
		paths = append(paths, filePath{item.Path, source})
	}
	return paths
}

func projectedPaths(s *corev1.VolumeProjection) []filePath {
	switch {
	case s.ConfigMap != nil && s.ConfigMap.Items != nil:
		return itemPaths(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil && s.Secret.Items != nil:
		return itemPaths(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil && s.DownwardAPI.Items != nil:
		return downwardPaths(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		return []filePath{{s.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case s.ClusterTrustBundle != nil:
		b := s.ClusterTrustBundle
		name := b.Name
		if name == nil {
			name = b.SignerName
		}
		if name == nil {
			return nil
		}
		return []filePath{{b.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case s.PodCertificate != nil:
		var paths []filePath
		for _, p := range []filePath{
			{s.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{s.PodCertificate.KeyPath, "PodCertificate key"},
			{s.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		} {
			if p.path != "" {
				paths = append(paths, p)
			}
		}
		return paths
	}
	return nil
}
