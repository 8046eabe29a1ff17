package settings

import (
	"fmt"
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Passwords reads the file that clickhouse.passwords_file names: a JSON object
// of tenant id to password. The error never holds any of its content but keys.
func Passwords(path string) (map[tenant.ID]config.Secret, error) {
	data, err := ReadFile(path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("clickhouse.passwords_file %q: %w", path, err)
	}
	var entries map[string]string
	if faults := strictjson.Decode(data, &entries); len(faults) > 0 {
		return nil, fmt.Errorf("clickhouse.passwords_file %q: %s", path, faults[0])
	}
	passwords := make(map[tenant.ID]config.Secret, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		id, err := tenant.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("clickhouse.passwords_file %q: %w", path, err)
		}
		passwords[id] = config.Secret(entries[name])
	}
	return passwords, nil
}
