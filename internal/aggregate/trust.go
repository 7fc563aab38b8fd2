package aggregate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// A Trust holds the authorities and headers with which other servers authenticate users: those that
// connect to them, and those that a front proxy names.
type Trust struct {
	// ClientCA are the authorities of users' certificates, ProxyCA those of front proxies, in PEM.
	ClientCA, ProxyCA []byte
	// AllowedNames are the common names that front proxies may have; empty means any.
	AllowedNames []string
	// The headers in which a front proxy names the user.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// Add adds a front proxy that uses the standard headers: its authority, and the common name of its
// certificate.
func (t *Trust) Add(authority []byte, name string) {
	anyName := len(t.ProxyCA) > 0 && len(t.AllowedNames) == 0
	t.ProxyCA = append(bytes.Clone(t.ProxyCA), authority...)
	if !anyName {
		t.AllowedNames = union(t.AllowedNames, name)
	}
	t.UsernameHeaders = union(t.UsernameHeaders, "X-Remote-User")
	t.UIDHeaders = union(t.UIDHeaders, "X-Remote-Uid")
	t.GroupHeaders = union(t.GroupHeaders, "X-Remote-Group")
	t.ExtraPrefixes = union(t.ExtraPrefixes, "X-Remote-Extra-")
}

// union returns a new list of the elements of both lists without duplicates.
func union(a []string, b ...string) []string {
	all := []string{}
	for _, one := range slices.Concat(a, b) {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// The config map that other servers read.
const (
	trustNamespace = metav1.NamespaceSystem
	trustName      = "extension-apiserver-authentication"
)

// Publish writes t to the config map kube-system/extension-apiserver-authentication. It keeps
// entries that other servers of the store wrote, except for expired certificates. It appends to the
// journal without validation, so that the start of a server does not wait for the schema of config
// maps.
func Publish(ctx context.Context, store *resource.Store, t *Trust) error {
	d := store.Registry().Load().Resource(schema.GroupResource{Resource: "configmaps"})
	if d == nil {
		return errors.New("config maps are not served")
	}
	for {
		entry, err := t.entry(d, store.State())
		if entry == nil || err != nil {
			return err
		}
		_, err = store.State().Append(ctx, journal.Batch{Entries: []journal.Entry{*entry}})
		var conflict *journal.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
	}
}

// entry returns the write that is needed; nil if none is.
func (t *Trust) entry(d *resource.Definition, s *state.State) (*journal.Entry, error) {
	now := time.Now()
	entry := &journal.Entry{Key: d.Key(trustNamespace, trustName)}
	tree := resource.Tree{
		"apiVersion": d.APIVersion(d.Storage), "kind": d.Kind,
		"metadata": resource.Tree{
			"namespace": trustNamespace, "name": trustName,
			"uid": string(uuid.NewUUID()), "creationTimestamp": now.UTC().Format(time.RFC3339),
		},
	}
	if o, _ := s.Get(entry.Key); o != nil {
		var err error
		if tree, err = o.Tree(); err != nil {
			return nil, err
		}
		entry.Prev = o.Revision
	}
	before, _ := tree["data"].(map[string]any)
	after, err := t.data(before)
	if err != nil || object.Equal(before, after) {
		return nil, err
	}
	tree["data"] = after
	entry.Object, err = object.New(entry.Key, tree, 0, now)
	return entry, err
}

// data returns the new data of the config map, merged with the present one.
func (t *Trust) data(before map[string]any) (map[string]any, error) {
	said := func(key string) string {
		text, _ := before[key].(string)
		return text
	}
	data := map[string]any{}
	if ca := joinCertificates(said("client-ca-file"), t.ClientCA); ca != "" {
		data["client-ca-file"] = ca
	}
	ca := joinCertificates(said("requestheader-client-ca-file"), t.ProxyCA)
	if ca == "" {
		return data, nil
	}
	data["requestheader-client-ca-file"] = ca
	for _, list := range []struct {
		key      string
		values   []string
		optional bool
	}{
		{key: "requestheader-allowed-names", values: t.AllowedNames},
		{key: "requestheader-username-headers", values: t.UsernameHeaders},
		{key: "requestheader-uid-headers", values: t.UIDHeaders, optional: true},
		{key: "requestheader-group-headers", values: t.GroupHeaders},
		{key: "requestheader-extra-headers-prefix", values: t.ExtraPrefixes},
	} {
		var known []string
		if text := said(list.key); text != "" {
			if err := json.Unmarshal([]byte(text), &known); err != nil {
				return nil, fmt.Errorf("config map %s/%s, %s: %w", trustNamespace, trustName, list.key, err)
			}
		}
		all := union(known, list.values...)
		if len(all) == 0 && list.optional {
			continue
		}
		text, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		data[list.key] = string(text)
	}
	return data, nil
}

// joinCertificates returns the certificates of both texts without duplicates and expired ones.
func joinCertificates(before string, own []byte) string {
	var all bytes.Buffer
	seen := map[string]bool{}
	rest := slices.Concat([]byte(before), []byte("\n"), own)
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || seen[string(cert.Raw)] || time.Since(cert.NotAfter) > 5*time.Minute {
			continue
		}
		seen[string(cert.Raw)] = true
		_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}) // cannot fail: a buffer accepts all writes
	}
	return all.String()
}
