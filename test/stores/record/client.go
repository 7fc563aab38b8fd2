package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// client sends requests as the admin. It gets and returns plain JSON, so that nothing between the
// server and the recorded objects changes them.
type client struct {
	*http.Client
	server string
}

// connect reads address and credentials of a server from the kubeconfig in its data directory.
func connect(data string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.UserAgent = "record"
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &client{c, config.Host}, nil
}

func (c *client) do(ctx context.Context, method, path, mediaType, body string) (code int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

func (c *client) get(ctx context.Context, path string, into any) error {
	code, answer, err := c.do(ctx, "GET", path, "", "")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("GET %s: %d: %s", path, code, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// writeAll sends requests. It repeats those that get 404 for a moment: a new definition is not
// served at once.
func (c *client) writeAll(ctx context.Context, writes []write) error {
	for _, w := range writes {
		body, err := c.expand(ctx, w.body)
		if err != nil {
			return fmt.Errorf("writes.txt:%d: %w", w.line, err)
		}
		for attempt := 0; ; attempt++ {
			code, answer, err := c.do(ctx, w.method, w.path, w.mediaType, body)
			if err != nil {
				return err
			}
			if code < 300 {
				break
			}
			if code != http.StatusNotFound || attempt == 50 {
				return fmt.Errorf("writes.txt:%d: %s %s: %d: %s", w.line, w.method, w.path, code, answer)
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

var reference = regexp.MustCompile(`\{(uid (/[^\s}]+)|big)\}`)

func (c *client) expand(ctx context.Context, body string) (_ string, err error) {
	return reference.ReplaceAllStringFunc(body, func(text string) string {
		path := reference.FindStringSubmatch(text)[2]
		if path == "" {
			return strings.Repeat("0123456789abcdef", 100<<10/16)
		}
		var o struct{ Metadata struct{ UID string } }
		err = errors.Join(err, c.get(ctx, path, &o))
		return o.Metadata.UID
	}), err
}

// settled returns all objects once they no longer change: what the server and its controllers do
// after a write is part of the store.
func (c *client) settled(ctx context.Context) (lists []byte, err error) {
	for range 60 {
		before := lists
		if lists, err = c.lists(ctx); err != nil {
			return nil, err
		}
		if bytes.Equal(before, lists) {
			return lists, nil
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the objects have changed for two minutes")
}

// lists returns, as JSON, the items of all lists by the paths of these: each resource in each
// version.
func (c *client) lists(ctx context.Context) ([]byte, error) {
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	if err := c.get(ctx, "/apis", &groups); err != nil {
		return nil, err
	}
	paths := []string{"/api/v1"}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			paths = append(paths, "/apis/"+version.GroupVersion)
		}
	}
	lists := map[string][]json.RawMessage{}
	for _, path := range paths {
		var resources struct {
			Resources []struct {
				Name  string
				Verbs []string
			}
		}
		if err := c.get(ctx, path, &resources); err != nil {
			return nil, err
		}
		for _, r := range resources.Resources {
			if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") {
				continue
			}
			var list struct{ Items []json.RawMessage }
			if err := c.get(ctx, path+"/"+r.Name, &list); err != nil {
				return nil, err
			}
			if len(list.Items) > 0 {
				lists[path+"/"+r.Name] = list.Items
			}
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", " ")
	err := e.Encode(lists)
	return out.Bytes(), err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
