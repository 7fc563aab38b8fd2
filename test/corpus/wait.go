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

// A definition has the fields of a CustomResourceDefinition that waits need.
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

// stepCRD creates a definition and prints only "served" if it succeeds.
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

// noteCRD records a definition that a request created, for its deletion.
func (s *session) noteCRD(r *request, a *answer) {
	if r.method != "POST" || a.code != http.StatusCreated || !strings.HasPrefix(r.path, crdPath) {
		return
	}
	var d definition
	if v, err := a.decode(); err == nil && convert(v, &d) == nil {
		s.crds = append(s.crds, d.Metadata.Name)
	}
}

// waitCRD returns when the definition is established, discovery names its kind, and its objects can
// be listed.
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
	return s.poll(ctx, path+" still exists", func() (bool, error) {
		a, err := s.ask(ctx, "GET", path, "")
		return err == nil && a.code == http.StatusNotFound, err
	})
}

// waitFor returns when the response to a GET of path contains text.
func (s *session) waitFor(ctx context.Context, path, text string) error {
	path, err := s.expand(path)
	if err != nil {
		return err
	}
	return s.poll(ctx, path+" does not contain "+text, func() (bool, error) {
		a, err := s.ask(ctx, "GET", path, "")
		return err == nil && strings.Contains(string(a.body), text), err
	})
}

// poll calls done until it returns true or patience is over.
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

// pause waits before a request is repeated; false if patience is over. It uses real time, because
// it waits for another process.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}
