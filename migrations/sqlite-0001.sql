-- The tables of schema version 0001. `make generated` writes this file.
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE alert_states (
    comparison TEXT NOT NULL,
    alert TEXT NOT NULL,
    segment TEXT NOT NULL,
    state VARCHAR(20) NOT NULL,
    since VARCHAR(27) NOT NULL,
    streak INTEGER NOT NULL,
    judged_slot VARCHAR(27) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    reason TEXT NOT NULL,
    value DOUBLE,
    users INTEGER NOT NULL,
    threshold DOUBLE NOT NULL,
    severity VARCHAR(20) NOT NULL,
    dedup_key TEXT,
    incident TEXT,
    acknowledged_by TEXT,
    CONSTRAINT pk_alert_states PRIMARY KEY (comparison, alert, segment),
    CONSTRAINT ck_alert_states_state CHECK (state IN ('quiet', 'pending', 'firing')),
    CONSTRAINT ck_alert_states_outcome CHECK (outcome IN ('ok', 'breach', 'no_data', 'too_few', 'error')),
    CONSTRAINT ck_alert_states_severity CHECK (severity IN ('critical', 'warning', 'info'))
) WITHOUT ROWID;

CREATE INDEX ix_alert_states_state ON alert_states (state);

CREATE TABLE daily (
    comparison TEXT NOT NULL,
    day VARCHAR(27) NOT NULL,
    segment TEXT NOT NULL,
    metric TEXT NOT NULL,
    runs INTEGER NOT NULL,
    n INTEGER NOT NULL,
    n_undefined INTEGER NOT NULL,
    mean DOUBLE,
    standard_error DOUBLE,
    lowest DOUBLE,
    highest DOUBLE,
    shares_below JSON NOT NULL,
    histogram JSON,
    is_final BOOLEAN NOT NULL,
    CONSTRAINT pk_daily PRIMARY KEY (comparison, day, segment, metric)
) WITHOUT ROWID;

CREATE TABLE leases (
    name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    holder TEXT NOT NULL,
    acquired_at VARCHAR(27) NOT NULL,
    expires_at VARCHAR(27),
    CONSTRAINT pk_leases PRIMARY KEY (name)
) WITHOUT ROWID;

CREATE TABLE runs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    comparison TEXT NOT NULL,
    slot VARCHAR(27) NOT NULL,
    status VARCHAR(20) NOT NULL,
    reason TEXT,
    config_hash TEXT NOT NULL,
    k INTEGER,
    owner TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    claimed_until VARCHAR(27),
    started_at VARCHAR(27) NOT NULL,
    finished_at VARCHAR(27),
    catalogue_size INTEGER,
    labels_until VARCHAR(27),
    labelled_at VARCHAR(27),
    epoch INTEGER,
    models JSON,
    input_hash TEXT,
    reasons JSON,
    stage_seconds JSON,
    split JSON,
    unpaired JSON,
    standstills JSON,
    CONSTRAINT ck_runs_status CHECK (status IN ('running', 'ok', 'insufficient', 'failed', 'abandoned')),
    CONSTRAINT uq_runs_comparison_slot UNIQUE (comparison, slot)
);

CREATE INDEX ix_runs_claimed ON runs (claimed_until) WHERE claimed_until IS NOT NULL;

CREATE INDEX ix_runs_comparison_status_slot ON runs (comparison, status, slot);

CREATE INDEX ix_runs_slot ON runs (slot);

CREATE INDEX ix_runs_unlabelled ON runs (comparison, status, slot) WHERE labels_until IS NOT NULL AND labelled_at IS NULL;

CREATE TABLE silences (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    matchers JSON NOT NULL,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    created_at VARCHAR(27) NOT NULL,
    starts_at VARCHAR(27) NOT NULL,
    ends_at VARCHAR(27) NOT NULL
);

CREATE TABLE transitions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    comparison TEXT NOT NULL,
    alert TEXT NOT NULL,
    segment TEXT NOT NULL,
    slot VARCHAR(27) NOT NULL,
    at VARCHAR(27) NOT NULL,
    from_state VARCHAR(20) NOT NULL,
    to_state VARCHAR(20) NOT NULL,
    reason TEXT NOT NULL,
    value DOUBLE,
    direction VARCHAR(20) NOT NULL,
    threshold DOUBLE NOT NULL,
    users INTEGER NOT NULL,
    kind VARCHAR(20) NOT NULL,
    metric TEXT NOT NULL,
    statistic TEXT NOT NULL,
    severity VARCHAR(20) NOT NULL,
    since VARCHAR(27) NOT NULL,
    dedup_key TEXT,
    runbook_url TEXT,
    labels JSON NOT NULL,
    explanation TEXT,
    interval JSON,
    normal DOUBLE,
    incident TEXT,
    is_new_normal BOOLEAN DEFAULT 0 NOT NULL,
    headline TEXT,
    concerned INTEGER,
    removed VARCHAR(20),
    CONSTRAINT ck_transitions_from_state CHECK (from_state IN ('quiet', 'pending', 'firing')),
    CONSTRAINT ck_transitions_to_state CHECK (to_state IN ('quiet', 'pending', 'firing')),
    CONSTRAINT ck_transitions_direction CHECK (direction IN ('below', 'above')),
    CONSTRAINT ck_transitions_severity CHECK (severity IN ('critical', 'warning', 'info'))
);

CREATE INDEX ix_transitions_comparison_slot ON transitions (comparison, slot);

CREATE INDEX ix_transitions_incident ON transitions (incident);

CREATE INDEX ix_transitions_slot ON transitions (slot);

CREATE TABLE arm_scores (
    run_id INTEGER NOT NULL,
    segment TEXT NOT NULL,
    arm VARCHAR(20) NOT NULL,
    metric TEXT NOT NULL,
    position INTEGER NOT NULL,
    value DOUBLE,
    n INTEGER NOT NULL,
    CONSTRAINT pk_arm_scores PRIMARY KEY (run_id, segment, arm, metric),
    CONSTRAINT ck_arm_scores_arm CHECK (arm IN ('baseline', 'candidate')),
    CONSTRAINT fk_arm_scores_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE coverage (
    run_id INTEGER NOT NULL,
    segment TEXT NOT NULL,
    position INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    paired INTEGER NOT NULL,
    users_by_reason JSON NOT NULL,
    asked_by_arm JSON,
    CONSTRAINT pk_coverage PRIMARY KEY (run_id, segment),
    CONSTRAINT fk_coverage_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE deliveries (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    transition_id INTEGER NOT NULL,
    receiver TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at VARCHAR(27) NOT NULL,
    claimed_by TEXT,
    claimed_until VARCHAR(27),
    may_be_known BOOLEAN DEFAULT 0 NOT NULL,
    reason TEXT,
    settled_at VARCHAR(27),
    repeat_at VARCHAR(27),
    message_key TEXT,
    is_receiver_removed BOOLEAN DEFAULT 0 NOT NULL,
    CONSTRAINT ck_deliveries_status CHECK (status IN ('pending', 'held', 'sent', 'dead', 'dropped')),
    CONSTRAINT uq_deliveries_transition_id_receiver UNIQUE (transition_id, receiver),
    CONSTRAINT fk_deliveries_transitions FOREIGN KEY(transition_id) REFERENCES transitions (id) ON DELETE CASCADE
);

CREATE INDEX ix_deliveries_repeated ON deliveries (receiver, repeat_at) WHERE repeat_at IS NOT NULL;

CREATE INDEX ix_deliveries_waiting ON deliveries (receiver, next_attempt_at) WHERE status IN ('pending', 'held');

CREATE TABLE evidence (
    run_id INTEGER NOT NULL,
    kind VARCHAR(20) NOT NULL,
    position INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    baseline JSON NOT NULL,
    candidate JSON NOT NULL,
    scores JSON NOT NULL,
    CONSTRAINT pk_evidence PRIMARY KEY (run_id, kind, position),
    CONSTRAINT ck_evidence_kind CHECK (kind IN ('worst', 'representative')),
    CONSTRAINT fk_evidence_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE expectations (
    run_id INTEGER NOT NULL,
    alert TEXT NOT NULL,
    segment TEXT NOT NULL,
    runs INTEGER NOT NULL,
    expected DOUBLE,
    limit_value DOUBLE,
    opposite DOUBLE,
    z DOUBLE,
    evidence DOUBLE,
    evidence_limit DOUBLE,
    CONSTRAINT pk_expectations PRIMARY KEY (run_id, alert, segment),
    CONSTRAINT fk_expectations_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE explanations (
    run_id INTEGER NOT NULL,
    sentence TEXT NOT NULL,
    details JSON NOT NULL,
    CONSTRAINT pk_explanations PRIMARY KEY (run_id),
    CONSTRAINT fk_explanations_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE kept_lists (
    run_id INTEGER NOT NULL,
    arm VARCHAR(20) NOT NULL,
    part INTEGER NOT NULL,
    first_user BLOB NOT NULL,
    last_user BLOB NOT NULL,
    payload BLOB NOT NULL,
    CONSTRAINT pk_kept_lists PRIMARY KEY (run_id, arm, part),
    CONSTRAINT ck_kept_lists_arm CHECK (arm IN ('baseline', 'candidate')),
    CONSTRAINT fk_kept_lists_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE lessons (
    run_id INTEGER NOT NULL,
    about TEXT NOT NULL,
    numbers BLOB NOT NULL,
    CONSTRAINT pk_lessons PRIMARY KEY (run_id),
    CONSTRAINT fk_lessons_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE score_places (
    run_id INTEGER NOT NULL,
    metric TEXT NOT NULL,
    part SMALLINT NOT NULL,
    place SMALLINT NOT NULL,
    CONSTRAINT pk_score_places PRIMARY KEY (run_id, metric),
    CONSTRAINT fk_score_places_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE summaries (
    run_id INTEGER NOT NULL,
    segment TEXT NOT NULL,
    metric TEXT NOT NULL,
    position INTEGER NOT NULL,
    n INTEGER NOT NULL,
    n_undefined INTEGER NOT NULL,
    mean DOUBLE,
    standard_error DOUBLE,
    statistics JSON NOT NULL,
    histogram JSON NOT NULL,
    CONSTRAINT pk_summaries PRIMARY KEY (run_id, segment, metric),
    CONSTRAINT fk_summaries_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE notifications (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    delivery_id INTEGER NOT NULL,
    at VARCHAR(27) NOT NULL,
    status VARCHAR(20) NOT NULL,
    reason TEXT,
    next_attempt_at VARCHAR(27),
    is_receiver_removed BOOLEAN DEFAULT 0 NOT NULL,
    CONSTRAINT ck_notifications_status CHECK (status IN ('pending', 'held', 'sent', 'dead', 'dropped')),
    CONSTRAINT fk_notifications_deliveries FOREIGN KEY(delivery_id) REFERENCES deliveries (id) ON DELETE CASCADE
);

CREATE INDEX ix_notifications_delivery_id ON notifications (delivery_id);

CREATE TABLE scores (
    run_id INTEGER NOT NULL,
    part SMALLINT NOT NULL,
    user_id TEXT NOT NULL,
    v1 DOUBLE,
    v2 DOUBLE,
    v3 DOUBLE,
    v4 DOUBLE,
    v5 DOUBLE,
    v6 DOUBLE,
    v7 DOUBLE,
    v8 DOUBLE,
    CONSTRAINT pk_scores PRIMARY KEY (run_id, part, user_id)
) WITHOUT ROWID;

CREATE VIEW user_scores AS
SELECT runs.comparison, runs.slot, scores.user_id, score_places.metric,
    nullif(CASE score_places.place WHEN 1 THEN v1 WHEN 2 THEN v2 WHEN 3 THEN v3 WHEN 4 THEN v4
        WHEN 5 THEN v5 WHEN 6 THEN v6 WHEN 7 THEN v7 WHEN 8 THEN v8 END, 'NaN') AS value,
    scores.run_id
FROM runs JOIN score_places ON score_places.run_id = runs.id
JOIN scores ON scores.run_id = runs.id AND scores.part = score_places.part;

INSERT INTO alembic_version (version_num) VALUES ('0001')
