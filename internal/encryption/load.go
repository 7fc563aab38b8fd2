package encryption

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"sigs.k8s.io/yaml"
)

// load reads, checks and builds what a file says.
func load(file string) (*settings, error) {
	f, err := read(file)
	if err != nil {
		return nil, err
	}
	return f.settings()
}

// A source is a file as it was read.
type source struct {
	name string
	mode os.FileMode
	data []byte
}

func (f *source) sum() [sha256.Size]byte { return sha256.Sum256(f.data) }

func (f *source) settings() (*settings, error) {
	config, err := decode(f.data)
	if err != nil {
		return nil, fmt.Errorf("encryption configuration %s: %w", f.name, err)
	}
	s, err := newSettings(config)
	if err != nil {
		return nil, fmt.Errorf("encryption configuration %s: %w", f.name, err)
	}
	s.sum = f.sum()
	for _, w := range append(f.exposed(), sharedNames(config)...) {
		s.warnings = append(s.warnings, fmt.Sprintf("encryption configuration %s: %s", f.name, w))
	}
	return s, nil
}

// exposed warns of a file that others can read or write.
func (f *source) exposed() []string {
	if f.mode.Perm()&0o006 == 0 || runtime.GOOS == "windows" { // which has other means than a mode
		return nil
	}
	return []string{fmt.Sprintf("mode %04o lets everybody on this machine have the keys: chmod 600 it", f.mode.Perm())}
}

// most is what a file may have; one of this size is a mistake.
const most = 1 << 20

func read(file string) (*source, error) {
	data, mode, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read encryption configuration: %w", err)
	}
	return &source{file, mode, data}, nil
}

func readFile(file string) ([]byte, os.FileMode, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, 0, err
	case len(data) > most:
		return nil, 0, fmt.Errorf("%s: more than %d bytes", file, most)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, 0, fmt.Errorf("%s: the file is empty", file)
	}
	return data, info.Mode(), nil
}

// decode reads a configuration and says everything that is wrong with it.
func decode(data []byte) (*apiserver.EncryptionConfiguration, error) {
	codecs, err := codecsOnce()
	if err != nil {
		return nil, err
	}
	decoded, kind, err := codecs.UniversalDecoder().Decode(data, nil, nil)
	switch {
	case kruntime.IsMissingKind(err): // whose own text is the whole file
		return nil, missing("Kind")
	case kruntime.IsMissingVersion(err):
		return nil, missing("apiVersion")
	case err != nil:
		return nil, err
	}
	if err := refuseMore(data); err != nil {
		return nil, err
	}
	config, ok := decoded.(*apiserver.EncryptionConfiguration)
	if !ok {
		return nil, fmt.Errorf("got unexpected config type: %v", kind)
	}
	problems := validation.ValidateEncryptionConfiguration(config, true)
	for _, p := range problems {
		if _, whole := p.BadValue.(apiserver.ProviderConfiguration); whole {
			p.BadValue = field.OmitValueType{} // would be printed as addresses
		}
	}
	return config, append(problems, refuseKMS(config)...).ToAggregate()
}

var codecsOnce = sync.OnceValues(func() (serializer.CodecFactory, error) {
	scheme := kruntime.NewScheme()
	err := errors.Join(apiserver.AddToScheme(scheme), apiserverv1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict), err
})

// refuseMore refuses documents behind the first, of which the decoder takes no notice.
func refuseMore(data []byte) error {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 0; ; {
		document, err := documents.Read()
		if err == io.EOF {
			return nil
		}
		var content any
		if err == nil {
			err = yaml.Unmarshal(document, &content)
		}
		if err != nil {
			return err
		}
		if content == nil { // comments
			continue
		}
		if n++; n > 1 {
			return errors.New("the file has more than one document: put all rules into one")
		}
	}
}

func refuseKMS(config *apiserver.EncryptionConfiguration) field.ErrorList {
	var problems field.ErrorList
	for i, rule := range config.Resources {
		for j, provider := range rule.Providers {
			if provider.KMS != nil {
				at := field.NewPath("resources").Index(i).Child("providers").Index(j).Child("kms")
				problems = append(problems, field.Forbidden(at, "KMS providers are not supported; use secretbox, aesgcm or aescbc"))
			}
		}
	}
	return problems
}

// sharedNames warns of keys that cannot be told apart by what they write.
func sharedNames(config *apiserver.EncryptionConfiguration) []string {
	var warnings []string
	for i, rule := range config.Resources {
		secrets := map[string]string{}
		warned := map[string]bool{}
		for _, p := range rule.Providers {
			provider, keys := keysOf(&p)
			for _, key := range keys {
				name := fmt.Sprintf("%s key %q", provider, key.Name)
				secret, seen := secrets[name]
				secrets[name] = key.Secret
				if seen && secret != key.Secret && !warned[name] {
					warned[name] = true
					warnings = append(warnings, fmt.Sprintf("resources[%d] has more than one %s: give every key a name of its own", i, name))
				}
			}
		}
	}
	return warnings
}

// A missing field is an error in the words of Kubernetes.
type missing string

func (m missing) Error() string { return "Object '" + string(m) + "' is missing" }
