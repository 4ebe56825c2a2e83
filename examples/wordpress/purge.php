<?php
/*
Plugin Name: Empties the cache of pages
Description: Tells the web server that its kept pages are out of date. Put this file into wp-content/mu-plugins/.
*/

// A post stands on many pages: its own, the front page, archives, feeds. They are made again when somebody asks.
function tidegate_purge() {
    static $is_done = false;
    if ($is_done) {
        return;
    }
    $is_done = true;
    // After the response, so that nobody waits.
    add_action('shutdown', function () {
        wp_remote_request(home_url('/*'), array('method' => 'PURGE', 'timeout' => 2));
    });
}

foreach (array('clean_post_cache', 'wp_insert_comment', 'edit_comment', 'transition_comment_status', 'deleted_comment',
        'switch_theme', 'wp_update_nav_menu', 'customize_save_after', 'update_option_blogname') as $event) {
    add_action($event, 'tidegate_purge');
}
