package corpus

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// definition is what a script's waits need of a CustomResourceDefinition.
type definition struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Served bool
		}
	}
	Status struct {
		Conditions []struct{ Type, Status, Reason string }
	}
}

func (d *definition) established() bool {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return true
		}
	}
	return false
}

// stepCRD creates a definition and prints nothing but "served" if all goes well.
func (s *session) stepCRD(ctx context.Context, input string, p parameters) (string, error) {
	text, err := s.expand(input)
	if err != nil {
		return "", err
	}
	var d definition
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		return "", err
	}
	r := &request{method: "POST", path: crdPath, header: http.Header{"Content-Type": {"application/yaml"}}, body: []byte(text)}
	a, err := s.send(ctx, r, false)
	if err != nil {
		return "", err
	}
	s.noteCRD(r, a)
	if a.code != http.StatusCreated {
		return a.print(s.n, p)
	}
	if err := s.waitCRD(ctx, d.Metadata.Name); err != nil {
		return "", err
	}
	return "served\n", nil
}

// noteCRD remembers a definition that a request made, for its removal.
func (s *session) noteCRD(r *request, a *answer) {
	if r.method != "POST" || a.code != http.StatusCreated || !strings.HasPrefix(r.path, crdPath) {
		return
	}
	var d definition
	if v, err := a.decode(); err == nil && convert(v, &d) == nil {
		s.crds = append(s.crds, d.Metadata.Name)
	}
}

// waitCRD returns when the definition is established, discovery names its kind, and its objects can be listed.
func (s *session) waitCRD(ctx context.Context, name string) error {
	return s.poll(ctx, "definition "+name+" is not served", func() (bool, error) {
		a, err := s.ask(ctx, "GET", crdPath+"/"+name, "")
		if err != nil {
			return false, err
		}
		var d definition
		v, err := a.decode()
		if err != nil || convert(v, &d) != nil || !d.established() {
			return false, nil
		}
		for _, version := range d.Spec.Versions {
			if !version.Served {
				continue
			}
			path := "/apis/" + d.Spec.Group + "/" + version.Name
			found, err := s.ask(ctx, "GET", path, "")
			if err != nil || !strings.Contains(string(found.body), `"name":"`+d.Spec.Names.Plural+`"`) {
				return false, err
			}
			listed, err := s.ask(ctx, "GET", path+"/"+d.Spec.Names.Plural, "")
			if err != nil || listed.code != http.StatusOK {
				return false, err
			}
		}
		return true, nil
	})
}

func (s *session) waitGone(ctx context.Context, path string) error {
	path, err := s.expand(path)
	if err != nil {
		return err
	}
	return s.poll(ctx, path+" is still there", func() (bool, error) {
		a, err := s.ask(ctx, "GET", path, "")
		return err == nil && a.code == http.StatusNotFound, err
	})
}

// waitFor returns when the answer to a GET of path contains text.
func (s *session) waitFor(ctx context.Context, path, text string) error {
	path, err := s.expand(path)
	if err != nil {
		return err
	}
	return s.poll(ctx, path+" does not say "+text, func() (bool, error) {
		a, err := s.ask(ctx, "GET", path, "")
		return err == nil && strings.Contains(string(a.body), text), err
	})
}

// poll asks done until it says so, and gives up after patience.
func (s *session) poll(ctx context.Context, complaint string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !pause(ctx) {
			return fmt.Errorf("%s after %s", complaint, patience)
		}
	}
}

// pause waits a moment before a request is repeated; false if there is no time left. What it waits for is another
// process, whose clock cannot be faked.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}
