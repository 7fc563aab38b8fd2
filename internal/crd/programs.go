package crd

import (
	"sync"
	"weak"

	"github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// programs are the compiled schemas in use, by fingerprint: versions and kinds whose schemas say the same share one. It
// keeps none alive.
type programs struct {
	mu    sync.Mutex
	known map[uint64]weak.Pointer[schema.Program]
}

func newPrograms() *programs { return &programs{known: map[uint64]weak.Pointer[schema.Program]{}} }

// compile compiles a schema, and returns an equal program that is in use if there is one.
func (s *programs) compile(from *apiextensionsv1.JSONSchemaProps, preserve bool) (*schema.Program, error) {
	p, err := schema.Compile(from, preserve)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared := s.known[p.Fingerprint()].Value(); shared != nil {
		return shared, nil
	}
	for fingerprint, known := range s.known {
		if known.Value() == nil {
			delete(s.known, fingerprint)
		}
	}
	s.known[p.Fingerprint()] = weak.Make(p)
	return p, nil
}
