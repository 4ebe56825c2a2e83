create table users (
    id       bigint primary key auto_increment,
    name     varchar(20) character set ascii not null,
    password varchar(200) character set ascii not null,
    joined   bigint not null,
    unique key (name)
);
create table sessions (
    token    char(64) character set ascii primary key,     -- the hash of what the browser has
    user_id  bigint not null,
    ends     bigint not null,
    key (ends),
    foreign key (user_id) references users (id) on delete cascade
);
create table follows (
    follower bigint not null,
    followed bigint not null,
    primary key (follower, followed),
    key (followed),
    foreign key (follower) references users (id) on delete cascade,
    foreign key (followed) references users (id) on delete cascade
);
create table posts (
    id       bigint primary key auto_increment,
    user_id  bigint not null,
    text     varchar(280) character set utf8mb4 not null,
    posted   bigint not null,
    key (user_id, id),
    foreign key (user_id) references users (id) on delete cascade
);
-- A post stands in the timeline of each follower, so that reading one is a walk along an index.
create table timelines (
    user_id  bigint not null,
    post_id  bigint not null,
    primary key (user_id, post_id),
    foreign key (post_id) references posts (id) on delete cascade
);
