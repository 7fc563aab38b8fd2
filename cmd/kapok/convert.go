package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kapok-dev/kapok/internal/kinds/versions"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// conversion is the command line of kapok convert.
type conversion struct {
	files     []string
	recursive bool
	crds      []string
	target    string
	format    string
	validate  string
	local     bool
}

func newConvert() *cobra.Command {
	v := &conversion{}
	c := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert manifests to another version of their API",
		Long: `Convert manifests to another version of their API.

Files, directories or the standard input (-) are read as YAML or JSON, with any number
of objects and lists in each. Without --output-version every object is converted to
the preferred version of its group. No server is needed. The output is complete: if
one object cannot be converted, nothing is printed. Unknown and duplicate fields are
also errors, unless --validate is warn or ignore.

Versions that Kubernetes has removed are supported, with the defaults that they had.
Custom resources are converted if --crd names their CustomResourceDefinition.`,
		Example: `  kapok convert -f deployment.yaml --output-version apps/v1
  kapok convert -f manifests/ -R | kubectl apply -f -
  kapok convert -f at.yaml --crd at-crd-versions.yaml --output-version cnat.programming-kubernetes.info/v1beta1`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			target, err := v.check()
			if err != nil {
				return err
			}
			return failed(v.run(target, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
	f := c.Flags()
	f.StringSliceVarP(&v.files, "filename", "f", nil, "file or directory to convert, - for the standard input")
	f.BoolVarP(&v.recursive, "recursive", "R", false, "also read subdirectories")
	f.StringSliceVar(&v.crds, "crd", nil, "file or directory with CustomResourceDefinitions: also convert objects of their kinds")
	f.StringVar(&v.target, "output-version", "", "version to convert to, like apps/v1 (default the preferred version of each object's group)")
	f.StringVarP(&v.format, "output", "o", "yaml", "format: yaml or json")
	f.StringVar(&v.validate, "validate", validateStrict, "treatment of unknown and duplicate fields: strict (an error), warn or ignore")
	f.BoolVar(&v.local, "local", true, "convert without a server; must be true")
	return c
}

// check validates the flags, and returns the version to convert to, empty without --output-version.
func (v *conversion) check() (schema.GroupVersion, error) {
	switch {
	case len(v.files) == 0:
		return schema.GroupVersion{}, errors.New("nothing to convert: set --filename")
	case v.format != "yaml" && v.format != "json":
		return schema.GroupVersion{}, fmt.Errorf("--output %q: want yaml or json", v.format)
	case v.validate != validateStrict && v.validate != validateWarn && v.validate != validateIgnore:
		return schema.GroupVersion{}, fmt.Errorf("--validate %q: want strict, warn or ignore", v.validate)
	case !v.local:
		return schema.GroupVersion{}, errors.New("--local=false is not supported: kapok convert works without a server")
	case v.target == "":
		return schema.GroupVersion{}, nil
	}
	target, err := schema.ParseGroupVersion(v.target)
	if err != nil || target.Version == "" {
		return schema.GroupVersion{}, fmt.Errorf("--output-version %q: want GROUP/VERSION, like apps/v1, or v1 for the core group", v.target)
	}
	return target, nil
}

func (v *conversion) run(target schema.GroupVersion, stdin io.Reader, stdout, stderr io.Writer) error {
	custom, found, err := readDefinitions(v.crds, stdin)
	if err != nil {
		return err
	}
	manifests, err := readManifests(v.files, v.recursive, stdin)
	if err != nil {
		return err
	}
	found = append(found, manifests.findings...)
	var objects []runtime.Object
	var errs []error
	for _, d := range manifests.documents {
		var strict []error
		obj, err := convertDocument(d, custom, target, &strict)
		found.add(d, strict...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d, err))
			continue
		}
		objects = append(objects, obj)
	}
	if err := errors.Join(append(errs, found.judge(v.validate, stderr))...); err != nil {
		return err
	}
	if len(objects) == 0 {
		return errors.New("the input contains no object")
	}
	if len(objects) == 1 && manifests.single() {
		return v.print(stdout, objects[0])
	}
	list := &corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, obj := range objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: obj})
	}
	return v.print(stdout, list)
}

// convertDocument converts a custom resource if a definition of its kind was given, else a built-in
// one. Unknown and duplicate fields are added to strict.
func convertDocument(d document, custom customKinds, target schema.GroupVersion, strict *[]error) (runtime.Object, error) {
	var obj runtime.Object
	if kind := custom.of(d.gvk.GroupKind()); kind != nil {
		tree, err := kind.convert(d, target, strict)
		if err != nil {
			return nil, err
		}
		obj = &unstructured.Unstructured{Object: tree}
	} else {
		var err error
		if obj, err = versions.Convert(d.data, target, strict); err != nil {
			if versions.IsForeign(d.gvk) {
				err = fmt.Errorf("%w (set --crd to its CustomResourceDefinition)", err)
			}
			return nil, err
		}
	}
	if definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok && d.gvk.Version != apiextensionsv1.SchemeGroupVersion.Version {
		keepUnknownFields(definition)
		if err := acceptable(definition); err != nil {
			*strict = append(*strict, fmt.Errorf("this definition is invalid in %s: make its schemas structural and set the type of every field: %w", definition.APIVersion, err))
		}
	}
	if meta, err := meta.Accessor(obj); err == nil {
		meta.SetManagedFields(nil) // they are about the version that was
	}
	return obj, nil
}

func (v *conversion) print(w io.Writer, obj runtime.Object) error {
	var text []byte
	var err error
	if v.format == "json" {
		text, err = json.MarshalIndent(obj, "", "    ")
		text = append(text, '\n')
	} else {
		text, err = yaml.Marshal(obj)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
