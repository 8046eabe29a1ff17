CREATE TABLE clicks (id UUID, page LowCardinality(String), at DateTime64(3)) ENGINE = MergeTree ORDER BY at
