package generate

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"k8s.io/code-generator/pkg/apidefinitions"
)

// The options of the generators of k8s.io/code-generator and of k8s.io/kube-openapi. They are
// written like those of controller-gen: NAME:field=value,field=value. Each generator takes the
// packages of the option paths that have its tag, as kube_codegen.sh does.
type (
	// inPlace generators write a file beside the types.
	inPlace struct {
		// HeaderFile is the text at the top of each file. Default: hack/boilerplate.go.txt, if it exists.
		HeaderFile string `marker:",optional"`
		// Lint are rules of code-generator for tags: known-tags-only, require-explicit-disablement.
		Lint []string `marker:",optional"`
	}
	// helperOptions are of gen_helpers: deepcopy, validation, defaulter and conversion together.
	helperOptions struct {
		HeaderFile string   `marker:",optional"`
		Lint       []string `marker:",optional"`
		// Peers are packages with further conversion functions.
		Peers []string `marker:",optional"`
	}
	// clientOptions are of gen_client.
	clientOptions struct {
		HeaderFile string   `marker:",optional"`
		Lint       []string `marker:",optional"`
		// Dir is the directory below which packages are generated.
		Dir string
		// Pkg is the import path of Dir. Default: that of the directory in its module.
		Pkg string `marker:",optional"`
		// Watch generates listers and informers. Default: true.
		Watch *bool `marker:",optional"`
		// ApplyConfig generates apply configurations, and methods Apply of the clients. Default: false.
		ApplyConfig bool `marker:"applyconfig,optional"`
		// ApplyConfigSchema is a file with the OpenAPI schema of the types, ApplyConfigExternals are
		// TYPE:PACKAGE of apply configurations elsewhere.
		ApplyConfigSchema    string   `marker:"applyconfigSchema,optional"`
		ApplyConfigExternals []string `marker:"applyconfigExternals,optional"`
		// The names of directories. Defaults: clientset, versioned, listers, informers,
		// applyconfiguration.
		Clientset            string `marker:",optional"`
		Versioned            string `marker:",optional"`
		Listers              string `marker:",optional"`
		Informers            string `marker:",optional"`
		ApplyConfigDirectory string `marker:"applyconfigName,optional"`
		// Plurals are exceptions TYPE:PLURAL.
		Plurals []string `marker:",optional"`
		// Protobuf lets the clients prefer protobuf.
		Protobuf bool `marker:",optional"`
	}
	// protobufOnly are of go-to-protobuf.
	protobufOnly struct {
		HeaderFile string `marker:",optional"`
	}
	// openapiOptions are of gen_openapi.
	openapiOptions struct {
		HeaderFile string `marker:",optional"`
		Dir        string
		Pkg        string `marker:",optional"`
		// Packages are further ones.
		Packages []string `marker:",optional"`
		// Report is the file for violations of the API rules. Default: none.
		Report string `marker:",optional"`
		// ModelNames is the name of files with the names of models. Default: none.
		ModelNames string `marker:",optional"`
	}
)

// codeOptions are the options of the code generators by their names on the command line.
func codeOptions() map[string]any {
	return map[string]any{
		"helpers":    helperOptions{},
		"deepcopy":   inPlace{},
		"defaulter":  inPlace{},
		"conversion": helperOptions{},
		"validation": inPlace{},
		"register":   inPlace{},
		"lifecycle":  inPlace{},
		"client":     clientOptions{},
		"openapi":    openapiOptions{},
		"protobuf":   protobufOnly{},
	}
}

// checkCode returns an error for options that would end a generator, and the process.
func checkCode(name string, options any) error {
	failed := func(err error) error {
		if err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
		return nil
	}
	switch o := options.(type) {
	case inPlace:
		return failed(apidefinitions.ValidateFlags(o.Lint))
	case helperOptions:
		return failed(apidefinitions.ValidateFlags(o.Lint))
	case clientOptions:
		if err := apidefinitions.ValidateFlags(o.Lint); err != nil {
			return failed(err)
		}
		for _, p := range o.Plurals {
			if kind, plural, found := strings.Cut(p, ":"); !found || kind == "" || plural == "" || strings.Contains(plural, ":") {
				return failed(fmt.Errorf("plurals has %q: must be TYPE:PLURAL", p))
			}
		}
		_, err := importPath(o.Dir, o.Pkg)
		return failed(err)
	case openapiOptions:
		_, err := importPath(o.Dir, o.Pkg)
		return failed(err)
	}
	return nil
}

// header returns the file with the text at the top of files: the given one, or the one of the
// module.
func header(given string) string {
	if given != "" {
		return given
	}
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if path := filepath.Join(dir, boilerplate); exists(path) {
			return path
		}
		if absolute, err := filepath.Abs(dir); err != nil || exists(filepath.Join(dir, "go.mod")) || filepath.Dir(absolute) == absolute {
			return ""
		}
	}
}

// importPath returns the import path of a directory, which need not exist yet.
func importPath(dir, given string) (string, error) {
	if dir == "" {
		return "", errors.New("dir is empty")
	}
	if given != "" {
		return given, nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for root := absolute; ; root = filepath.Dir(root) {
		data, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			module := modfile.ModulePath(data)
			if module == "" {
				return "", fmt.Errorf("%s has no module path", filepath.Join(root, "go.mod"))
			}
			rel, err := filepath.Rel(root, absolute)
			return path.Join(module, filepath.ToSlash(rel)), err
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if filepath.Dir(root) == root {
			return "", fmt.Errorf("%s is in no module: name its import path in pkg", dir)
		}
	}
}
