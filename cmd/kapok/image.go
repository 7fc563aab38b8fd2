package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kapok-dev/kapok/client"
	processnode "github.com/kapok-dev/kapok/node/process"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func newImage() *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "Map images to programs for nodes of processes"}
	c.AddCommand(newImageSet(), newImageList(), newImageUnset())
	group(c)
	return c
}

// imageServer are the flags for the server of kapok image.
type imageServer struct{ nodeServer }

// client returns a client of the server: that of the flags, of $KUBECONFIG, or of the default data
// directory.
func (s *imageServer) client() (client.Client, error) {
	file, err := s.instance.kubeconfig(s.kubeconfig)
	if err != nil {
		return nil, err
	}
	if file == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if file, err = defaultKubeconfig(); err != nil {
			return nil, fmt.Errorf("no default for --kubeconfig: %w", err)
		}
	}
	config, err := configOf(file, s.context)
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{})
}

func newImageSet() *cobra.Command {
	var server imageServer
	var print bool
	c := &cobra.Command{
		Use:   "set IMAGE=PROGRAM...",
		Short: "Map images to programs",
		Long: `Map images to programs: containers with the image run the program on nodes of kapok up --node process. Those that run
continue with the program that they have.

IMAGE is a full name, a name without tag and digest, the last part of a name, or * for all images without a mapping.
PROGRAM is a path, absolute or relative to --node-workdir of the server, or ` + processnode.ProgramForms() + `.

Mappings are objects of the kind ImageMapping (node.kapok.dev/v1alpha1). With --dry-run, the command only prints them,
for example to keep them with the other manifests of a project. The flag --image of kapok up takes precedence.`,
		Example: `  kapok image set nginx=./bin/nginx
  kapok image set ghcr.io/acme/web=go://./cmd/web '*=./bin/stub'
  kapok image set nginx=./bin/nginx --dry-run > images.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want IMAGE=PROGRAM, like nginx=./bin/nginx")
			}
			for _, text := range args {
				if _, _, err := processnode.ParseImage(text); err != nil {
					return err
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if print {
				return failed(printMappings(c.OutOrStdout(), args))
			}
			kube, err := server.client()
			if err != nil {
				return failed(err)
			}
			return failed(setMappings(c.Context(), kube, args, c.OutOrStdout()))
		},
	}
	server.flags(c)
	c.Flags().BoolVar(&print, "dry-run", false, "print the objects as YAML, and do not change the server")
	return c
}

func printMappings(out io.Writer, args []string) error {
	for i, text := range args {
		image, program, err := processnode.ParseImage(text)
		if err != nil {
			return err
		}
		data, err := yaml.Marshal(processnode.NewMapping(image, program).Object)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(out, "---")
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// setMappings changes the objects for images, whatever their names are, or creates them.
func setMappings(ctx context.Context, kube client.Client, args []string, out io.Writer) error {
	all, err := listMappings(ctx, kube)
	if err != nil {
		return err
	}
	for _, text := range args {
		image, program, err := processnode.ParseImage(text)
		if err != nil {
			return err
		}
		found := false
		for i := range all {
			if is, _ := processnode.ReadMapping(&all[i]); is != image {
				continue
			}
			found = true
			if err := unstructured.SetNestedField(all[i].Object, program, "spec", "program"); err != nil {
				return err
			}
			if err := kube.Update(ctx, &all[i]); err != nil {
				return err
			}
		}
		if !found {
			if err := kube.Create(ctx, processnode.NewMapping(image, program)); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "image %s is mapped to %s\n", printable(image), printable(program))
	}
	return nil
}

// listMappings returns the objects of the server, sorted by image.
func listMappings(ctx context.Context, kube client.Client) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(processnode.MappingKind.GroupVersion().WithKind(processnode.MappingKind.Kind + "List"))
	err := kube.List(ctx, list)
	if meta.IsNoMatchError(err) {
		return nil, errors.New("the server has no kind ImageMapping: start it with kapok up --node process")
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		ofA, _ := processnode.ReadMapping(&a)
		ofB, _ := processnode.ReadMapping(&b)
		return strings.Compare(ofA+"\x00"+a.GetName(), ofB+"\x00"+b.GetName())
	})
	return list.Items, err
}

func newImageList() *cobra.Command {
	var server imageServer
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the images that are mapped to programs by objects",
		Example: `  kapok image list`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			kube, err := server.client()
			if err != nil {
				return failed(err)
			}
			all, err := listMappings(c.Context(), kube)
			if err != nil {
				return failed(err)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "IMAGE\tPROGRAM\tOBJECT")
			for i := range all {
				image, program := processnode.ReadMapping(&all[i])
				fmt.Fprintf(w, "%s\t%s\t%s\n", printable(image), printable(program), all[i].GetName())
			}
			return failed(w.Flush())
		},
	}
	server.flags(c)
	return c
}

func newImageUnset() *cobra.Command {
	var server imageServer
	c := &cobra.Command{
		Use:     "unset IMAGE...",
		Short:   "Remove the mappings of images",
		Example: `  kapok image unset nginx`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || slices.Contains(args, "") {
				return errors.New("want IMAGE, as kapok image list prints it")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			kube, err := server.client()
			if err != nil {
				return failed(err)
			}
			return failed(unsetMappings(c.Context(), kube, args, c.OutOrStdout()))
		},
	}
	server.flags(c)
	return c
}

// unsetMappings deletes all objects for images. An image without one is an error, and then none is
// deleted.
func unsetMappings(ctx context.Context, kube client.Client, images []string, out io.Writer) error {
	all, err := listMappings(ctx, kube)
	if err != nil {
		return err
	}
	of := map[string][]*unstructured.Unstructured{}
	for i := range all {
		image, _ := processnode.ReadMapping(&all[i])
		of[image] = append(of[image], &all[i])
	}
	for _, image := range images {
		if of[image] == nil {
			return fmt.Errorf("image %q is not mapped: kapok image list prints those that are", image)
		}
	}
	for _, image := range images {
		for _, u := range of[image] {
			if err := client.IgnoreNotFound(kube.Delete(ctx, u)); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "image %s is not mapped any more\n", printable(image))
	}
	return nil
}
