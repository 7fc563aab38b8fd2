package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/kapok-dev/kapok/client"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A configurationKind is a kind of objects that refer to webhooks and have a caBundle.
type configurationKind struct {
	schema.GroupVersionKind
	names func(*CertificateOptions) []string
}

var configurationKinds = []configurationKind{
	{admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		func(o *CertificateOptions) []string { return o.MutatingWebhookConfigurations }},
	{admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
		func(o *CertificateOptions) []string { return o.ValidatingWebhookConfigurations }},
	{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		func(o *CertificateOptions) []string { return o.CustomResourceDefinitions }},
}

// LocalConfigurations changes MutatingWebhookConfigurations, ValidatingWebhookConfigurations, and
// CustomResourceDefinitions with a conversion webhook, typed or unstructured, to refer to a process
// by URL instead of a service. base is the URL of the process, such as https://127.0.0.1:9443; the
// paths of the services are appended. caBundle has the authorities to trust, in PEM. Manifests for
// a cluster then work for a program on a developer's machine:
//
//	err := certificates.Ensure(ctx)
//	...
//	err = webhook.LocalConfigurations("https://127.0.0.1:9443", certificates.CABundle(), mutating, validating)
//
// The objects are changed in place. CertificateOptions.URL changes objects on the server in the
// same way.
func LocalConfigurations(base string, caBundle []byte, objs ...client.Object) error {
	if base == "" {
		return errors.New("the base URL is missing")
	}
	for _, obj := range objs {
		if err := pointObject(obj, base, caBundle); err != nil {
			return fmt.Errorf("%T %s: %w", obj, obj.GetName(), err)
		}
	}
	return nil
}

func pointObject(obj client.Object, base string, caBundle []byte) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		_, err := point(u.Object, base, caBundle)
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	if _, err := point(content, base, caBundle); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj)
}

// point sets the caBundle of all webhooks of a configuration, or of the conversion of a definition,
// and if base is set the URL instead of the service. It changes nothing else.
func point(obj map[string]any, base string, caBundle []byte) (changed bool, err error) {
	if base != "" {
		if u, err := url.Parse(base); err != nil || u.Scheme != "https" || u.Host == "" {
			return false, fmt.Errorf("base URL %q: want https://HOST:PORT", base)
		}
	}
	clients, err := clientConfigs(obj)
	if err != nil {
		return false, err
	}
	encoded := base64.StdEncoding.EncodeToString(caBundle)
	for _, c := range clients {
		if c["caBundle"] != encoded {
			c["caBundle"] = encoded
			changed = true
		}
		if service, ok := c["service"].(map[string]any); ok && base != "" {
			path, _ := service["path"].(string)
			c["url"] = strings.TrimSuffix(base, "/") + path
			delete(c, "service")
			changed = true
		}
	}
	return changed, nil
}

// clientConfigs returns the clientConfigs of the webhooks of an object.
func clientConfigs(obj map[string]any) ([]map[string]any, error) {
	var holders []any
	if _, definition := obj["spec"]; definition {
		strategy, _, err := unstructured.NestedString(obj, "spec", "conversion", "strategy")
		if err != nil {
			return nil, err
		}
		if strategy != string(apiextensionsv1.WebhookConverter) {
			return nil, errors.New("its conversion has no webhook")
		}
		webhook, _, err := unstructured.NestedFieldNoCopy(obj, "spec", "conversion", "webhook")
		if err != nil {
			return nil, err
		}
		holders = []any{webhook}
	} else {
		webhooks, ok := obj["webhooks"].([]any)
		if !ok {
			return nil, errors.New("it has no webhooks")
		}
		holders = webhooks
	}
	var configs []map[string]any
	for i, holder := range holders {
		holder, ok := holder.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("webhook %d is not an object", i)
		}
		config, ok := holder["clientConfig"].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("webhook %d has no clientConfig", i)
		}
		configs = append(configs, config)
	}
	return configs, nil
}
