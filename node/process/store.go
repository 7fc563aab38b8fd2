package process

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// An ImageStore provides the files of OCI images. Package node/process/oci implements it.
type ImageStore interface {
	// Pull returns an image, after it has read and unpacked it if that is needed, or ErrNotPresent.
	// Its files are not changed by the ImageStore, which removes them only in Collect.
	Pull(ctx context.Context, r ImageRequest) (*Image, error)
	// Collect removes images that are not in use, and have not been returned by Pull for a while.
	Collect(inUse func(id string) bool) error
}

// ErrNotPresent is the error for an image that is not there, with the pull policy Never.
var ErrNotPresent = errors.New("the image is not present")

// An ImageRequest names an image and how it is obtained.
type ImageRequest struct {
	Archive   string // the absolute path of an archive or layout; "": Reference
	Reference string // of a registry
	Policy    corev1.PullPolicy
	Secrets   []corev1.Secret // those of imagePullSecrets that exist
	Pulling   func()          // is called before an archive or registry is read
}

// Source returns what is read, in the form of a program.
func (r *ImageRequest) Source() string {
	if r.Archive != "" {
		return archiveScheme + r.Archive
	}
	return registryScheme + r.Reference
}

// An Image is an image that is present. Its fields are those of the configuration of the OCI image
// specification.
type Image struct {
	ID                   string // the digest of the configuration
	Reference            string // for the status of containers: the name of the image with the digest of its manifest, or ID
	Root                 string // the directory of its files
	Entrypoint, Cmd, Env []string
	WorkingDir, User     string
	Size                 int64 // of its files, in bytes
}

// command returns what a container runs, as container runtimes define it: a command of the
// container replaces entrypoint and arguments of the image, and arguments of the container those of
// the image. expand expands the words of the container.
func (i *Image) command(c *corev1.Container, expand func(string) string) ([]string, error) {
	var words []string
	for _, word := range c.Command {
		words = append(words, expand(word))
	}
	args := i.Cmd
	if len(words) > 0 {
		args = nil
	} else {
		words = slices.Clone(i.Entrypoint)
	}
	if len(c.Args) > 0 {
		args = nil
		for _, word := range c.Args {
			args = append(args, expand(word))
		}
	}
	if words = append(words, args...); len(words) == 0 || words[0] == "" {
		return nil, missing{fmt.Sprintf("no command specified for image %q", c.Image)}
	}
	return words, nil
}
