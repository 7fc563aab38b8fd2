package dev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// settling is the time that the operator has to serve the webhooks that samples need.
const settling = 20 * time.Second

// applySamples applies the samples that have changed, or all. While the operator starts, its
// webhooks cannot be called: then it tries again.
func (d *dev) applySamples(ctx context.Context, all bool) error {
	objects, unread := d.readSamples()
	end := time.Now().Add(settling)
	for {
		err := d.apply(ctx, d.samples, objects, all)
		if err == nil && unread == nil { // otherwise an object of a file that is not read would be deleted
			err = d.deleteOthers(ctx, d.samples, objects)
		}
		d.reportSamples()
		if err == nil || !isWebhookAway(err) || !d.operator.running() || time.Now().After(end) {
			return errors.Join(unread, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.operator.ended:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isWebhookAway reports whether a webhook, for admission or conversion, could not be called.
func isWebhookAway(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed calling webhook") || strings.Contains(text, "conversion webhook for")
}

// readSamples returns the objects in config/samples, and an error for files that cannot be read.
func (d *dev) readSamples() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	var errs []error
	dir := filepath.Join(d.Project, filepath.FromSlash(samplesDir))
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) || strings.HasPrefix(entry.Name(), "kustomization."):
			return nil
		}
		found, err := readObjects(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", entry.Name(), err))
		}
		objects = append(objects, found...)
		return nil
	})
	return objects, errors.Join(append(errs, err)...)
}

// readObjects returns the objects of a file, also those in lists.
func readObjects(path string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return objects, err
		}
		switch {
		case len(u.Object) == 0:
			continue
		case u.IsList():
			err := u.EachListItem(func(item runtime.Object) error {
				u := item.(*unstructured.Unstructured)
				dropNulls(u.Object)
				objects = append(objects, u)
				return nil
			})
			if err != nil {
				return objects, err
			}
			continue
		case u.GetName() == "":
			return objects, fmt.Errorf("a %s has no metadata.name", cmp.Or(u.GetKind(), "object"))
		}
		if spec, ok := u.Object["spec"]; ok && spec == nil { // a new sample
			u.Object["spec"] = map[string]any{}
		}
		dropNulls(u.Object)
		objects = append(objects, u)
	}
}

// dropNulls removes fields that are null, as the server does with those of an object that is
// created. In server-side apply they would be errors.
func dropNulls(object map[string]any) {
	for name, value := range object {
		switch v := value.(type) {
		case nil:
			delete(object, name)
		case map[string]any:
			dropNulls(v)
		}
	}
}
