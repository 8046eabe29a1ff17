package settings

import (
	"fmt"
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Secrets reads a file of a secret for each tenant, a JSON object of tenant id to
// secret, which a key of the boot configuration names. The error never holds any
// of its content but keys.
func Secrets(key, path string) (map[tenant.ID]config.Secret, error) {
	data, err := ReadFile(path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", key, path, err)
	}
	var entries map[string]string
	if faults := strictjson.Decode(data, &entries); len(faults) > 0 {
		return nil, fmt.Errorf("%s %q: %s", key, path, faults[0])
	}
	secrets := make(map[tenant.ID]config.Secret, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		id, err := tenant.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", key, path, err)
		}
		secrets[id] = config.Secret(entries[name])
	}
	return secrets, nil
}
