package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// MappingKind is the kind of the objects that map images to programs, which kapok image writes. A
// Node defines it.
var MappingKind = schema.GroupVersionKind{Group: "node.kapok.dev", Version: "v1alpha1", Kind: "ImageMapping"}

// mappingDefinition is the name of the definition of MappingKind.
const mappingDefinition = "imagemappings.node.kapok.dev"

// definitionOwner is the field manager of the definition of MappingKind.
const definitionOwner = "kapok-process-node"

// NewMapping returns an object that maps an image to a program. Its name is made from the image.
func NewMapping(image, program string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": image, "program": program}}}
	u.SetGroupVersionKind(MappingKind)
	u.SetName(mappingName(image))
	return u
}

// ReadMapping returns the image and the program of an object.
func ReadMapping(u *unstructured.Unstructured) (image, program string) {
	image, _, _ = unstructured.NestedString(u.Object, "spec", "image")
	program, _, _ = unstructured.NestedString(u.Object, "spec", "program")
	return image, program
}

// mappingName returns a name for the mapping of an image: the image itself if it is a valid name,
// or else its letters and digits and the beginning of its hash.
func mappingName(image string) string {
	if len(validation.IsDNS1123Subdomain(image)) == 0 {
		return image
	}
	words := strings.FieldsFunc(strings.ToLower(image), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	clean := strings.Join(words, "-")
	hash := sha256.Sum256([]byte(image))
	return strings.TrimPrefix(clean[:min(len(clean), 200)]+"-"+hex.EncodeToString(hash[:4]), "-")
}

// definitionOfMappings returns the definition of MappingKind.
func definitionOfMappings() *unstructured.Unstructured {
	text := func(description string, longest int64) map[string]any {
		return map[string]any{"type": "string", "minLength": int64(1), "maxLength": longest, "description": description}
	}
	schemes := make([]string, len(programSchemes))
	for i, s := range programSchemes {
		schemes[i] = "self.startsWith('" + s + "')"
	}
	image := text("The full name of the image, its name without tag and digest, the last part of its name, or * for all images without a mapping.", 1024)
	image["x-kubernetes-validations"] = []any{map[string]any{
		"rule": "!self.contains('://') && !self.matches('[\\\\s=]')", "message": "must be the name of an image, without spaces and ="},
	}
	program := text("A path, absolute or relative to the working directory of the node, or "+strings.Join(programForms, ", ")+".", 4096)
	program["x-kubernetes-validations"] = []any{map[string]any{
		"rule": "!self.contains('://') || " + strings.Join(schemes, " || "), "message": "must be a path, or begin with " + strings.Join(programSchemes, ", ")},
	}
	column := func(name, path, kind string) map[string]any {
		return map[string]any{"name": name, "type": kind, "jsonPath": path}
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"group": MappingKind.Group, "scope": "Cluster",
			"names": map[string]any{"plural": "imagemappings", "singular": "imagemapping", "kind": MappingKind.Kind, "listKind": MappingKind.Kind + "List"},
			"versions": []any{map[string]any{
				"name": MappingKind.Version, "served": true, "storage": true,
				"additionalPrinterColumns": []any{column("Image", ".spec.image", "string"), column("Program", ".spec.program", "string"), column("Age", ".metadata.creationTimestamp", "date")},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "required": []any{"spec"},
					"description": "ImageMapping tells nodes whose containers are processes which program an image stands for.",
					"properties": map[string]any{
						"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
						"spec": map[string]any{"type": "object", "required": []any{"image", "program"}, "properties": map[string]any{"image": image, "program": program}},
					},
				}},
			}},
		},
	}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	u.SetName(mappingDefinition)
	return u
}

// mappings is the Reconciler of the objects of MappingKind, and the Runnable that defines the kind.
// It has one worker.
type mappings struct {
	images     *images
	client     client.Client
	reader     client.Reader
	controller controller.Controller
	source     controller.Source
	log        logr.Logger
}

func (p *pods) addMappings(m manager.Manager) error {
	s := &mappings{images: p.images, client: m.GetClient(), reader: m.GetAPIReader(), log: m.GetLogger()}
	var err error
	s.controller, err = controller.New("process-images", m, controller.Options{Reconciler: s, CacheSyncTimeout: -1})
	if err != nil {
		return err
	}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []handler.Request { return []handler.Request{{}} })
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(MappingKind)
	s.source = controller.Kind(m.GetCache(), client.Object(u), all)
	return m.Add(s)
}

// Start implements manager.Runnable: it defines the kind, waits until it is served, and begins to
// watch it.
func (s *mappings) Start(ctx context.Context) error {
	for reported := false; ; {
		err := s.client.Patch(ctx, definitionOfMappings(), client.Apply, client.FieldOwner(definitionOwner), client.ForceOwnership)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		if !reported && !apierrors.IsServiceUnavailable(err) {
			s.log.Error(err, "Cannot define the kind ImageMapping: images are mapped by flags only")
			reported = true
		}
		if !pause(ctx, createRetry) {
			return nil
		}
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(MappingKind.GroupVersion().WithKind(MappingKind.Kind + "List"))
	for s.reader.List(ctx, list, client.Limit(1)) != nil { // it is not established yet
		if !pause(ctx, definedRetry) {
			return nil
		}
	}
	return s.controller.Watch(s.source)
}

// definedRetry is the time between two attempts to list objects of a kind that has just been
// defined.
const definedRetry = 50 * time.Millisecond

// Reconcile implements controller.Reconciler: it reads all objects. Of several for an image, the
// oldest applies.
func (s *mappings) Reconcile(ctx context.Context, _ controller.Request) (controller.Result, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(MappingKind.GroupVersion().WithKind(MappingKind.Kind + "List"))
	if err := s.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, err
	}
	s.images.setObjects(programsOf(list.Items))
	return controller.Result{}, nil
}

// programsOf returns the programs of objects by their images. Of several for an image, the oldest
// applies.
func programsOf(items []unstructured.Unstructured) map[string]string {
	programs := map[string]string{}
	from := map[string]*unstructured.Unstructured{}
	for i := range items {
		u := &items[i]
		image, program := ReadMapping(u)
		if _, _, err := ParseImage(image + "=" + program); err != nil {
			continue // the definition has been changed
		}
		if other := from[image]; other != nil {
			t, o := u.GetCreationTimestamp(), other.GetCreationTimestamp()
			if o.Before(&t) || o.Equal(&t) && other.GetName() < u.GetName() {
				continue
			}
		}
		from[image], programs[image] = u, program
	}
	return programs
}
