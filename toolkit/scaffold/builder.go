package scaffold

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

var (
	// newRegistration is how kubebuilder registers types since 4.15, with the builder of apimachinery.
	newRegistration = regexp.MustCompile(`(?s)SchemeBuilder\.Register\(func\(s \*runtime\.Scheme\) error \{\s*s\.AddKnownTypes\(SchemeGroupVersion, ([^)]*)\)\s*return nil\s*\}\)`)
	runtimeImport   = regexp.MustCompile(`(?m)^\t"k8s.io/apimachinery/pkg/runtime"\n`)
)

// matchBuilder registers the new types of a group version as its builder wants it: groups that
// older versions of kubebuilder have scaffolded have the builder of controller-runtime, whose
// method Register takes objects.
func (s *apiStep) matchBuilder(files machinery.Filesystem, r *resource.Resource) error {
	dir := filepath.FromSlash(strings.TrimPrefix(r.Path, s.config.GetRepository()+"/"))
	group, err := afero.ReadFile(files.FS, filepath.Join(dir, "groupversion_info.go"))
	if err != nil || !bytes.Contains(group, []byte("scheme.Builder{")) || !bytes.Contains(group, []byte(`"sigs.k8s.io/controller-runtime/pkg/scheme"`)) {
		return nil // a file is missing where the project has its own
	}
	path := filepath.Join(dir, strings.ToLower(r.Kind)+"_types.go")
	data, err := afero.ReadFile(files.FS, path)
	if err != nil {
		return err
	}
	changed := newRegistration.ReplaceAll(data, []byte("SchemeBuilder.Register($1)"))
	if bytes.Equal(changed, data) {
		return nil
	}
	if !bytes.Contains(changed, []byte("runtime.")) {
		changed = runtimeImport.ReplaceAll(changed, nil)
	}
	return afero.WriteFile(files.FS, path, changed, 0o644)
}
